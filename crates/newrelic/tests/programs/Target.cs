// A program with methods of every shape: what the recorded bodies in tests/fixtures were made of.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Threading.Tasks;
using NewRelic.Api.Agent;
namespace RefApp {
  public struct Pt { public int X, Y; public Pt(int x, int y) { X = x; Y = y; } public override string ToString() { return "Pt(" + X + "," + Y + ")"; } [MethodImpl(MethodImplOptions.NoInlining)] public int Sum() { return X + Y; } }
  public enum Color { Red = 1, Blue = 2 }
  [System.Runtime.InteropServices.StructLayout(System.Runtime.InteropServices.LayoutKind.Auto)] public struct AutoPt { public int X; [MethodImpl(MethodImplOptions.NoInlining)] public int Sum() { return X + 1; } }
  public class T {
    int f = 7;
    public T() { }
    public T(int f) { this.f = f; }
    public static void StaticVoidTiny() { }
    public void InstVoidTiny() { }
    public static int StaticInt(int a, long b) { return a + (int)b; }
    public string InstString(string s, object o) { return s + o + f; }
    public static Pt ValueArgs(Pt p, Color c, double d, bool b, char ch, decimal m) { return new Pt(p.X + (int)c, (int)d); }
    public static void ByRefArgs(ref int a, out string s, ref Pt p) { a++; s = "out"; p.X = 9; }
    public static int[] Arrays(int[] a, string[,] b, List<string> l, Dictionary<string, Pt> d, int? n) { return a; }
    public static int MultiRetTiny(int x) { if (x > 0) return 1; if (x < -5) return -5; return 0; }
    public static string MultiRetFat(int x) {
      for (int i = 0; i < x; i++) { if (i == 3) return "three"; }
      switch (x) { case 0: return "zero"; case 1: return "one"; case 2: return "two"; case 7: return "seven"; }
      return "many" + x + x.ToString() + Environment.NewLine.Length + (x > 100 ? "big" : "small") + (x > 200 ? "huge" : "no") + (x == 5 ? "five" : "notfive");
    }
    public static int TryCatchFinally(int x) {
      int r = 0;
      try { if (x == 0) throw new InvalidOperationException("inner"); r = 10 / x; }
      catch (InvalidOperationException e) when (e.Message == "inner") { r = -1; }
      catch (DivideByZeroException) { r = -2; }
      finally { r += 100; }
      return r;
    }
    public static int TryMultiRet(int x) {
      try { if (x == 1) return 11; if (x == 2) throw new ArgumentException("two"); }
      catch (ArgumentException) { return 22; }
      finally { Console.Write(""); }
      return 33;
    }
    public static int Throws(int x) { throw new InvalidOperationException("thrown " + x); }
    public static void ThrowsSometimes(int x) { if (x == 1) throw new InvalidOperationException("sometimes"); Console.Write(""); }
    public static TT GenMethod<TT>(TT t, List<TT> l) { return t; }
    public static void GenMethodVoid<A, B>(A a, B b) { }
    public static async Task<int> AsyncM(int n) { await Task.Delay(1); return n + 1; }
    public static IEnumerable<int> Iter(int n) { for (int i = 0; i < n; i++) yield return i; }
    public static int Many(int a0,int a1,int a2,int a3,int a4,int a5,int a6,int a7,int a8,int a9,int a10,int a11) { return a0+a11; }
    public static ref int RefRet(int[] a) { return ref a[0]; }
    public static unsafe int Ptr(int* p) { return *p; }
    public int Prop { get { return f; } set { f = value; } }
    public static void Overload(int a) { }
    public static void Overload(string a) { }
    public static void Overload(int a, string b) { }
    public static void VoidOnly() { }
    public static void VoidOnly(int x) { }
    public static void Infinite(int x) { while (true) { if (x++ > 3) throw new Exception("stop"); } }
    public static int LocalsMany(int n) { int a=n,b=a+1,c=b+1,d=c+1,e=d+1; string s = "q"; object o = s; var p = new Pt(a,b); return a+b+c+d+e+s.Length+(o==null?1:0)+p.X; }
    [Trace] public static int TracedInlinable(int x) { return x; }
    [Trace] [MethodImpl(MethodImplOptions.NoInlining)] public static void Traced(int x) { Console.Write(""); }
    [Transaction] [MethodImpl(MethodImplOptions.NoInlining)] public static void Transacted() { Console.Write(""); }
    [Transaction(Web = true)] [MethodImpl(MethodImplOptions.NoInlining)] public static int WebTransacted(int x) { return x; }
    [Transaction(Web = false)] [MethodImpl(MethodImplOptions.NoInlining)] public static int WebFalseTransacted(int x) { return x; }
    [Transaction(Web = true)][Trace] [MethodImpl(MethodImplOptions.NoInlining)] public int Both(int x) { return x; }
    [Transaction] public static async Task<int> AsyncTransacted(int x) { await Task.Delay(1); return x; }
    [MethodImpl(MethodImplOptions.NoInlining)] public static void NoopInstr() { }
    [MethodImpl(MethodImplOptions.NoInlining)] public static void NoopPlain() { }
    [MethodImpl(MethodImplOptions.NoInlining)] public static int AddInstr(int a, int b) { return a + b; }
    [MethodImpl(MethodImplOptions.NoInlining)] public static int AddPlain(int a, int b) { return a + b; }
  }
  public class G<K> { public K V(K k) { return k; } public static K S(K k, List<K> l) { return k; } public M W<M>(M m, K k) { return m; } public class Inner { [MethodImpl(MethodImplOptions.NoInlining)] public K I(K k) { return k; } } }
  public class Outer { public class Nested { [MethodImpl(MethodImplOptions.NoInlining)] public int N(int x) { return x; } public int NInlinable(int x) { return x; } } class PrivNested { [MethodImpl(MethodImplOptions.NoInlining)] public int N(int x) { return x; } }  public struct NestedSeq { public int A; [MethodImpl(MethodImplOptions.NoInlining)] public int Sum() { return A; } } public static int CallPriv() { return new PrivNested().N(3); } }
  public static class Program {
    static void Do(string n, Action a) { try { a(); } catch (Exception e) { Console.WriteLine("EXC {0}: {1}: {2}", n, e.GetType().Name, e.Message); } }
    public static void Scenario() {
      var t = new T(); new T(3);
      Do("StaticVoidTiny", () => T.StaticVoidTiny());
      Do("InstVoidTiny", () => t.InstVoidTiny());
      Do("StaticInt", () => Console.WriteLine("R {0}", T.StaticInt(1, 2)));
      Do("InstString", () => Console.WriteLine("R {0}", t.InstString("a", 5)));
      Do("ValueArgs", () => Console.WriteLine("R {0}", T.ValueArgs(new Pt(1,2), Color.Blue, 3.5, true, 'c', 9m)));
      Do("ByRefArgs", () => { int a = 1; string s; var p = new Pt(); T.ByRefArgs(ref a, out s, ref p); Console.WriteLine("R {0} {1} {2}", a, s, p); });
      Do("Arrays", () => Console.WriteLine("R {0}", T.Arrays(new[]{1,2}, new string[1,1], new List<string>(), new Dictionary<string,Pt>(), 4).Length));
      Do("MultiRetTiny", () => Console.WriteLine("R {0} {1} {2}", T.MultiRetTiny(1), T.MultiRetTiny(-9), T.MultiRetTiny(0)));
      Do("MultiRetFat", () => Console.WriteLine("R {0} {1} {2} {3}", T.MultiRetFat(0), T.MultiRetFat(2), T.MultiRetFat(9), T.MultiRetFat(-1)));
      Do("TryCatchFinally", () => Console.WriteLine("R {0} {1}", T.TryCatchFinally(0), T.TryCatchFinally(5)));
      Do("TryMultiRet", () => Console.WriteLine("R {0} {1} {2}", T.TryMultiRet(1), T.TryMultiRet(2), T.TryMultiRet(3)));
      Do("Throws", () => T.Throws(4));
      Do("ThrowsSometimes", () => { T.ThrowsSometimes(0); T.ThrowsSometimes(1); });
      Do("GenMethod", () => { Console.WriteLine("R {0} {1}", T.GenMethod<string>("g", null), T.GenMethod<int>(5, null)); T.GenMethodVoid<string,int>("a", 1); });
      Do("AsyncM", () => Console.WriteLine("R {0}", T.AsyncM(1).Result));
      Do("Iter", () => { foreach (var i in T.Iter(2)) Console.WriteLine("R {0}", i); });
      Do("Many", () => Console.WriteLine("R {0}", T.Many(1,2,3,4,5,6,7,8,9,10,11,12)));
      Do("RefRet", () => Console.WriteLine("R {0}", T.RefRet(new[]{42})));
      Do("Ptr", () => { unsafe { int x = 77; Console.WriteLine("R {0}", T.Ptr(&x)); } });
      Do("Prop", () => { t.Prop = 4; Console.WriteLine("R {0}", t.Prop); });
      Do("Overload", () => { T.Overload(1); T.Overload("s"); T.Overload(1, "b"); });
      Do("VoidOnly", () => { T.VoidOnly(); T.VoidOnly(1); });
      Do("Infinite", () => T.Infinite(0));
      Do("LocalsMany", () => Console.WriteLine("R {0}", T.LocalsMany(1)));
      Do("Traced", () => { T.Traced(1); T.TracedInlinable(1); T.Transacted(); T.WebFalseTransacted(1); t.Both(2); Console.WriteLine("R {0} {1}", T.WebTransacted(2), T.AsyncTransacted(3).Result); });
      Do("G", () => { Console.WriteLine("R {0} {1}", new G<string>().V("k"), new G<int>().V(3)); Console.WriteLine("R {0} {1}", G<string>.S("s", null), G<int>.S(4, null)); Console.WriteLine("R {0} {1}", new G<string>().W<int>(6, "k"), new G<int>.Inner().I(8)); });
      Do("Nested", () => Console.WriteLine("R {0} {1}", new Outer.Nested().N(2) + new Outer.Nested().NInlinable(1), Outer.CallPriv()));
      Do("Struct", () => Console.WriteLine("R {0}", new Pt(1,2).Sum()));
      Do("Api", () => { NewRelic.Api.Agent.NewRelic.RecordMetric("m", 1.5f); Console.WriteLine("R {0}", NewRelic.Api.Agent.NewRelic.GetBrowserTimingHeader()); NewRelic.Api.Agent.NewRelic.NoticeError(new Exception("ne")); NewRelic.Api.Agent.NewRelic.NotInCore(3); NewRelic.Api.Agent.NewRelic.GetAgent(); });
    }
    static void Bench(string name, int n, Action<int> body) { body(Math.Min(n, 20000)); var best = double.MaxValue; for (int r = 0; r < 5; r++) { var sw = Stopwatch.StartNew(); body(n); sw.Stop(); best = Math.Min(best, sw.Elapsed.TotalMilliseconds * 1e6 / n); } Console.WriteLine("BENCH {0} {1:F2} ns/call", name, best); }
    public static int Main(string[] a) {
      if (a.Length > 0 && a[0] == "bench") {
        int n = 1000000;
        Bench("NoopPlain", n, k => { for (int i = 0; i < k; i++) T.NoopPlain(); });
        Bench("NoopInstr", n, k => { for (int i = 0; i < k; i++) T.NoopInstr(); });
        Bench("AddPlain", n, k => { for (int i = 0; i < k; i++) T.AddPlain(i, 1); });
        Bench("AddInstr", n, k => { for (int i = 0; i < k; i++) T.AddInstr(i, 1); });
        return 0;
      }
      if (a.Length > 0 && a[0] == "structcrash") { if (a[1] == "auto") Console.WriteLine("R {0}", new AutoPt{X=1}.Sum()); else Console.WriteLine("R {0}", new Outer.NestedSeq{A=1}.Sum()); return 0; }
      if (a.Length > 0 && a[0] == "hello") { Console.WriteLine("hello"); return 0; }
      Scenario();
      Console.WriteLine("DONE " + Environment.Version);
      return 0;
    }
  }
}
