// Four threads call a hundred methods while points for all of them come and go for so many seconds as the argument says. Prints how often
// they came or went, and how many results were wrong. The methods are in the class Many of this assembly, which whoever compiles this adds:
// M7 adds 7 to its argument.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Threading;
public static class Toggle {
  delegate int Plain();
  delegate int Add([MarshalAs(UnmanagedType.LPUTF8Str)] string name, [MarshalAs(UnmanagedType.LPUTF8Str)] string xml);
  public static int Main(string[] arguments) {
    IntPtr library = NativeLibrary.Load(Environment.GetEnvironmentVariable("CORECLR_PROFILER_PATH"));
    var apply = Marshal.GetDelegateForFunctionPointer<Plain>(NativeLibrary.GetExport(library, "ApplyCustomInstrumentation"));
    var add = Marshal.GetDelegateForFunctionPointer<Add>(NativeLibrary.GetExport(library, "AddCustomInstrumentation"));
    var calls = new List<Func<int, int>>(); var added = new List<int>(); var points = "";
    foreach (var method in typeof(Many).GetMethods(BindingFlags.Static | BindingFlags.Public)) {
      added.Add(int.Parse(method.Name.Substring(1), CultureInfo.InvariantCulture));
      calls.Add((Func<int, int>)method.CreateDelegate(typeof(Func<int, int>)));
      points += "<match assemblyName='Toggle' className='Many'><exactMethodMatcher methodName='" + method.Name + "'/></match>";
    }
    string all = "<extension><instrumentation><tracerFactory>" + points + "</tracerFactory></instrumentation></extension>";
    bool over = false; long wrong = 0;
    var threads = new Thread[4];
    for (int i = 0; i < threads.Length; i++) {
      threads[i] = new Thread(() => { for (int n = 0; !Volatile.Read(ref over); n++) if (calls[n % calls.Count](n) != n + added[n % calls.Count]) Interlocked.Increment(ref wrong); });
      threads[i].Start();
    }
    var watch = Stopwatch.StartNew();
    double seconds = double.Parse(arguments[0], CultureInfo.InvariantCulture); int toggles = 0;
    while (watch.Elapsed.TotalSeconds < seconds) {
      if (toggles % 2 == 0) add("all", all);
      if (apply() != 0) Interlocked.Increment(ref wrong);
      toggles++;
    }
    Volatile.Write(ref over, true);
    foreach (var thread in threads) thread.Join();
    Console.WriteLine("toggles {0} methods {1} wrong {2}", toggles, calls.Count, wrong);
    return 0;
  }
}
