// The API that programs call, as far as Target.cs uses it.
using System;
namespace NewRelic.Api.Agent {
  [AttributeUsage(AttributeTargets.Method)] public sealed class TransactionAttribute : Attribute { public bool Web { get; set; } }
  [AttributeUsage(AttributeTargets.Method)] public sealed class TraceAttribute : Attribute { }
  public static class NewRelic {
    static NewRelic() { Console.WriteLine("cctor"); }
    [System.Runtime.CompilerServices.MethodImpl(System.Runtime.CompilerServices.MethodImplOptions.NoInlining)] public static void RecordMetric(string name, float value) { Console.WriteLine("stub RecordMetric"); }
    [System.Runtime.CompilerServices.MethodImpl(System.Runtime.CompilerServices.MethodImplOptions.NoInlining)] public static string GetBrowserTimingHeader() { return "stub-header"; }
    [System.Runtime.CompilerServices.MethodImpl(System.Runtime.CompilerServices.MethodImplOptions.NoInlining)] public static void NoticeError(Exception e) { Console.WriteLine("stub NoticeError"); }
    [System.Runtime.CompilerServices.MethodImpl(System.Runtime.CompilerServices.MethodImplOptions.NoInlining)] public static void NotInCore(int x) { Console.WriteLine("stub NotInCore " + x); }
    public static object GetAgent() { return null; }
  }
}
