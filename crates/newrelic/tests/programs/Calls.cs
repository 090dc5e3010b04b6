// Times calls of a method that does nothing, of one that does nothing and is instrumented, and of one that does by hand what
// an instrumented method does, with as many threads as the argument says. Prints nanoseconds per call and thread: the best of
// five turns of each.
using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Threading;
public static class Calls {
  const int Count = 300000;
  [MethodImpl(MethodImplOptions.NoInlining)] static void Plain() { }
  [MethodImpl(MethodImplOptions.NoInlining)] static void Traced() { }
  static readonly Func<string, uint, string, string, Type, string, string, string, object, object[], ulong, Action<object, Exception>> start = Start;
  static readonly bool counts = Environment.GetEnvironmentVariable("AGENT_COUNT") == "true";
  static long started;
  [MethodImpl(MethodImplOptions.NoInlining)] static void Hand() {
    Action<object, Exception> finish = null;
    try { finish = start("factory", 1, "metric", "Calls", typeof(Calls), "Calls", "Hand", "", null, new object[0], 1); } catch (Exception) { }
    try { } catch (Exception thrown) { try { if (finish != null) finish(null, thrown); } catch (Exception) { } throw; }
    try { if (finish != null) finish(null, null); } catch (Exception) { }
  }
  static Action<object, Exception> Start(string factory, uint flags, string metric, string assembly, Type type, string typeName, string method, string signature, object target, object[] arguments, ulong id) {
    if (counts) Interlocked.Increment(ref started);
    return new Tracer(typeName + "." + method).Finish;
  }
  sealed class Tracer {
    readonly string id;
    public Tracer(string id) { this.id = id; }
    public void Finish(object result, Exception thrown) { if (counts) Console.WriteLine(id); }
  }
  static double Best(Action<int> calls) {
    // The runtime compiles again, and better, what was called thirty times, once nothing new has been called for 100 ms.
    for (int turn = 0; turn < 3; turn++) { calls(Count / 10); Thread.Sleep(250); }
    double best = double.MaxValue;
    for (int turn = 0; turn < 5; turn++) { var watch = Stopwatch.StartNew(); calls(Count); best = Math.Min(best, watch.Elapsed.TotalMilliseconds * 1e6 / Count); }
    return best;
  }
  public static int Main(string[] arguments) {
    int threads = int.Parse(arguments[0]);
    double plain = 0, traced = 0, hand = 0;
    var all = new Thread[threads];
    using (var start = new Barrier(threads)) {
      for (int i = 0; i < threads; i++) {
        all[i] = new Thread(() => {
          start.SignalAndWait();
          var ownPlain = Best(count => { for (int n = 0; n < count; n++) Plain(); });
          start.SignalAndWait();
          var ownTraced = Best(count => { for (int n = 0; n < count; n++) Traced(); });
          start.SignalAndWait();
          var ownHand = Best(count => { for (int n = 0; n < count; n++) Hand(); });
          lock (all) { plain += ownPlain; traced += ownTraced; hand += ownHand; }
        });
        all[i].Start();
      }
      foreach (var thread in all) thread.Join();
    }
    Console.WriteLine(string.Format(System.Globalization.CultureInfo.InvariantCulture, "plain {0:F2} traced {1:F2} hand {2:F2}", plain / threads, traced / threads, hand / threads));
    return 0;
  }
}
