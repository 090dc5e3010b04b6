// Calls a method with a tracer many times in three rounds, and prints how many exceptions were thrown in each, caught or not. The
// first argument is the file of the managed agent. With "missing" as the second one it is not there in the first two rounds, and
// the third round comes after the time in which it is not looked for again; with "no-assembly" it is something else from
// the start.
using System;
using System.IO;
using System.Runtime.CompilerServices;
using System.Threading;
public static class Broken {
  const int Count = 1000;
  static int thrown;
  [MethodImpl(MethodImplOptions.NoInlining)] static int Traced(int x) { return x + 1; }
  static void Round() {
    int before = thrown; long sum = 0;
    for (int i = 0; i < Count; i++) sum += Traced(i);
    Console.WriteLine("sum {0} exceptions {1}", sum, thrown - before);
  }
  // The field is only there where methods come to the agent by a delegate of their own module.
  static void LetTimePass() {
    var field = typeof(Broken).Assembly.GetType("NewRelic.Profiler.Tracing")?.GetField("Again");
    if (field != null) field.SetValue(null, 1L);
  }
  public static int Main(string[] arguments) {
    AppDomain.CurrentDomain.FirstChanceException += (sender, e) => Interlocked.Increment(ref thrown);
    string agent = arguments[0], away = agent + ".away";
    if (arguments[1] == "missing") File.Move(agent, away);
    if (arguments[1] == "no-assembly") { File.Delete(agent); File.WriteAllText(agent, "something else"); }
    Round();
    Round();
    if (arguments[1] == "missing") File.Move(away, agent);
    LetTimePass();
    Round();
    return 0;
  }
}
