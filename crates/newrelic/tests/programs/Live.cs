// Changes what is instrumented while it runs, by the functions that the managed agent calls, and prints what they give. The
// argument is the agent's home folder. Started with "stress", four threads call methods while points come and go; with "exit", it ends
// meanwhile; with "async", a method that is marked as runtime-async gets a point.
using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
namespace Live {
  public static class Traced {
    [MethodImpl(MethodImplOptions.NoInlining)] public static int Add(int x) { return x + 1; }
    [MethodImpl(MethodImplOptions.NoInlining)] public static T Same<T>(T x) { return x; }
    // A test puts the mark of runtime-async methods in the place of these options, which the compiler does not know.
    [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.NoOptimization | MethodImplOptions.Synchronized)] public static System.Threading.Tasks.Task<int> Later(int x) { return System.Threading.Tasks.Task.FromResult(x); }
    public class Inner { [MethodImpl(MethodImplOptions.NoInlining)] public int Twice(int x) { return 2 * x; } }
  }
  public static class Program {
    delegate int Plain();
    delegate int Add([MarshalAs(UnmanagedType.LPUTF8Str)] string name, [MarshalAs(UnmanagedType.LPUTF8Str)] string xml);
    static IntPtr library;
    static T Function<T>(string name) where T : class { return (T)(object)Marshal.GetDelegateForFunctionPointer(NativeLibrary.GetExport(library, name), typeof(T)); }
    static Plain refresh, reload, apply;
    static Add add;
    const string Point = "<match assemblyName=\"Live\" className=\"{0}\"><exactMethodMatcher methodName=\"{1}\"/></match>";
    static string Xml(params string[] points) { return "<extension><instrumentation><tracerFactory>" + string.Concat(points) + "</tracerFactory></instrumentation></extension>"; }
    static string Of(string type, string method) { return string.Format(Point, type, method); }
    static void Call() { Console.WriteLine("called {0} {1} {2} {3}", Traced.Add(1), Traced.Same(2), Traced.Same("s"), new Traced.Inner().Twice(3)); }
    static void Step(string name, int result) { Console.WriteLine("STEP {0}: 0x{1:x8}", name, result); Call(); }
    public static int Main(string[] arguments) {
      library = NativeLibrary.Load(Environment.GetEnvironmentVariable("CORECLR_PROFILER_PATH"));
      refresh = Function<Plain>("InstrumentationRefresh"); reload = Function<Plain>("ReloadConfiguration"); apply = Function<Plain>("ApplyCustomInstrumentation"); add = Function<Add>("AddCustomInstrumentation");
      string home = arguments[0], all = Xml(Of("Live.Traced", "Add"), Of("Live.Traced", "Same"), Of("Live.Traced+Inner", "Twice"));
      if (arguments.Length > 1 && arguments[1] == "exit") return Exit(all);
      if (arguments.Length > 1 && arguments[1] == "async") { int early = Traced.Later(4).Result; add("later", Xml(Of("Live.Traced", "Later"))); Console.WriteLine("ASYNC 0x{0:x8} {1} {2}", apply(), early, Traced.Later(5).Result); return 0; }
      if (arguments.Length > 1) return Stress();
      string file = Path.Combine(home, "extensions", "live.xml"), configuration = Path.Combine(home, "newrelic.config"), before = File.ReadAllText(configuration);
      Step("nothing to apply", apply());
      Step("added", add("gr\u00fc\u00dfe \U0001F600", all));
      Step("applied", apply());
      Step("taken back", apply());
      File.WriteAllText(file, all); Step("file", refresh());
      File.WriteAllText(file, "<extension><instru"); Step("broken file", refresh());
      File.WriteAllText(file, all);
      File.WriteAllText(configuration, before.Replace("</configuration>", "<instrumentation><rules><ignore assemblyName=\"live\" className=\"live.traced\"/></rules></instrumentation></configuration>"));
      Step("ignored", reload());
      File.WriteAllText(configuration, "<configuration"); Step("broken configuration", reload());
      File.WriteAllText(configuration, before); Step("configuration", reload());
      File.Delete(file); Step("no file", refresh());
      Step("nulls", add(null, null));
      return 0;
    }
    // The program ends while what is instrumented changes all the time.
    static int Exit(string all) {
      var thread = new Thread(() => { for (;;) { add("a", all); apply(); apply(); } }) { IsBackground = true };
      thread.Start();
      Thread.Sleep(150);
      Console.WriteLine("END");
      return 0;
    }
    // Threads call methods with and without tracers, and check each result.
    static int Stress() {
      bool over = false; long wrong = 0, calls = 0;
      var threads = new List<Thread>();
      for (int i = 0; i < 4; i++) {
        var thread = new Thread(() => { for (int n = 0; !Volatile.Read(ref over); n++) { if (Traced.Add(n) != n + 1 || Traced.Same(n) != n || Traced.Same("x") != "x" || new Traced.Inner().Twice(n) != 2 * n) Interlocked.Increment(ref wrong); Interlocked.Increment(ref calls); } });
        thread.Start(); threads.Add(thread);
      }
      string all = Xml(Of("Live.Traced", "Add"), Of("Live.Traced", "Same"), Of("Live.Traced+Inner", "Twice"));
      for (int toggles = 0; toggles < 100; toggles++) { if (toggles % 2 == 0) add("a", all); if (apply() != 0) wrong++; Thread.Sleep(1); }
      Volatile.Write(ref over, true);
      foreach (var thread in threads) thread.Join();
      Console.WriteLine("STRESS wrong={0} called={1}", wrong, calls > 100);
      return 0;
    }
  }
}
