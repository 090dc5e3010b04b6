// Times calls of a method that does nothing and of one that does nothing and is instrumented, with as many threads as the
// argument says, and prints nanoseconds per call and thread: the best of five turns of each.
using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Threading;
public static class Calls {
  const int Count = 300000;
  [MethodImpl(MethodImplOptions.NoInlining)] static void Plain() { }
  [MethodImpl(MethodImplOptions.NoInlining)] static void Traced() { }
  static double Best(Action<int> calls) {
    // The runtime compiles again, and better, what was called thirty times, once nothing new has been called for 100 ms.
    for (int turn = 0; turn < 3; turn++) { calls(Count / 10); Thread.Sleep(250); }
    double best = double.MaxValue;
    for (int turn = 0; turn < 5; turn++) { var watch = Stopwatch.StartNew(); calls(Count); best = Math.Min(best, watch.Elapsed.TotalMilliseconds * 1e6 / Count); }
    return best;
  }
  public static int Main(string[] arguments) {
    int threads = int.Parse(arguments[0]);
    var plain = new double[threads]; var traced = new double[threads];
    var all = new Thread[threads];
    using (var start = new Barrier(threads)) {
      for (int i = 0; i < threads; i++) {
        int number = i;
        all[i] = new Thread(() => {
          start.SignalAndWait();
          plain[number] = Best(count => { for (int n = 0; n < count; n++) Plain(); });
          start.SignalAndWait();
          traced[number] = Best(count => { for (int n = 0; n < count; n++) Traced(); });
        });
        all[i].Start();
      }
      foreach (var thread in all) thread.Join();
    }
    double sum = 0, sumPlain = 0;
    for (int i = 0; i < threads; i++) { sum += traced[i]; sumPlain += plain[i]; }
    Console.WriteLine(string.Format(System.Globalization.CultureInfo.InvariantCulture, "plain {0:F2} traced {1:F2}", sumPlain / threads, sum / threads));
    return 0;
  }
}
