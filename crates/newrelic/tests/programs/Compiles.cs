// Has each method of the classes Set0, Set1 … of this assembly compiled, which whoever compiles this adds, and prints nanoseconds for each,
// how many there are, and how many kilobytes of memory the process has in use afterwards.
using System;
using System.Diagnostics;
using System.IO;
using System.Reflection;
using System.Runtime.CompilerServices;
public static class Compiles {
  public static int Main() {
    int count = 0;
    var watch = new Stopwatch();
    foreach (var type in typeof(Compiles).Assembly.GetTypes()) {
      if (!type.Name.StartsWith("Set", StringComparison.Ordinal)) continue;
      var methods = type.GetMethods(BindingFlags.Static | BindingFlags.Public);
      watch.Start();
      foreach (var method in methods) RuntimeHelpers.PrepareMethod(method.MethodHandle);
      watch.Stop();
      count += methods.Length;
    }
    GC.Collect(); GC.WaitForPendingFinalizers(); GC.Collect();
    string resident = "0";
    foreach (var line in File.ReadAllLines("/proc/self/status")) if (line.StartsWith("VmRSS:", StringComparison.Ordinal)) resident = line.Split(new[] { ' ' }, StringSplitOptions.RemoveEmptyEntries)[1];
    Console.WriteLine(string.Format(System.Globalization.CultureInfo.InvariantCulture, "each {0:F0} methods {1} resident {2}", watch.Elapsed.TotalMilliseconds * 1e6 / count, count, resident.Trim()));
    return 0;
  }
}
