// Methods of value types and with parameters of value types: what can be boxed for the agent, and what cannot.
using System;
using System.Net;
using System.Net.Http.Headers;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
namespace Values {
  [StructLayout(LayoutKind.Auto)] public struct Auto { public int X; public string S; public int Sum(int y) { return X + y; } public void Inc() { X++; } public override string ToString() { return "Auto" + X + S; } }
  [StructLayout(LayoutKind.Auto)] public struct Generic<T> { public T V; public T Get() { return V; } public struct Nested { public T W; public T GetNested() { return W; } } }
  public ref struct Own { public int X; }
  public static class Takes {
    public static int Span(ReadOnlySpan<int> s) { return s.Length; }
    public static Span<int> ReturnSpan(int[] a) { return new Span<int>(a); }
    public static int Reference(TypedReference r) { return 1; }
    public static int RefStruct(Own o) { return o.X; }
    public static int Mixed(Span<byte> a, int b, ref int c, DateTime d, DayOfWeek e) { c += b; return a.Length; }
    public static int Value(Auto a) { return a.X; }
    public static int Nested(Environment.SpecialFolder f) { return (int)f; }
  }
  public static class Program {
    public static void Main() {
      var a = new Auto { X = 3, S = "s" };
      a.Inc();
      Console.WriteLine(a.Sum(1));
      Console.WriteLine(new Generic<string> { V = "g" }.Get() + new Generic<int> { V = 7 }.Get() + new Generic<int>.Nested { W = 8 }.GetNested());
      Console.WriteLine(Takes.Span(new ReadOnlySpan<int>(new int[3])));
      Console.WriteLine(Takes.ReturnSpan(new int[1]).Length);
      Console.WriteLine(Takes.Reference(__makeref(a)));
      Console.WriteLine(Takes.RefStruct(new Own { X = 9 }));
      int c = 1;
      Console.WriteLine(Takes.Mixed(new Span<byte>(new byte[2]), 5, ref c, DateTime.MinValue, DayOfWeek.Friday) + c);
      Console.WriteLine(Takes.Value(a));
      Console.WriteLine(Takes.Nested(Environment.SpecialFolder.Desktop));
      // These assemblies refer to types of the core library through one that forwards them.
      Console.WriteLine(new RetryConditionHeaderValue(TimeSpan.FromSeconds(3)));
      Console.WriteLine(IPAddress.Parse("127.0.0.1".AsSpan()));
      // References in a boxed copy of `this` have to be seen by the garbage collector.
      for (int i = 0; i < 200; i++) { a.S = new string('x', 3); a.Inc(); if (i % 10 == 0) GC.Collect(0); }
      Console.WriteLine(a);
    }
  }
}
