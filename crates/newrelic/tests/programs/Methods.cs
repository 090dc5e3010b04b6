// Methods of every shape. For each call the program prints what a tracer has to get, and the managed agent (symbol AGENT) what it
// got. The argument "points" prints the instrumentation points instead. With the symbol API this is the API that the program calls.
//
// Lines: SHAPE starts the calls of a shape. WANT is what a tracer gets, SEEN what one got; START has the identifiers, the receiver
// and the arguments, FINISH the result or the exception. The number behind `@` stands for an object. REFUSED is a line of the log
// that says why a method has no tracer; OUT is what the program sees, with tracers or without; AGENT says that this shape depends
// on the agent.
using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
#if API
namespace NewRelic.Api.Agent {
  public static class NewRelic {
    [MethodImpl(MethodImplOptions.NoInlining)] public static void RecordMetric(string name, float value) { }
    [MethodImpl(MethodImplOptions.NoInlining)] public static string NoticeError(Exception e) { return "stub"; }
    [MethodImpl(MethodImplOptions.NoInlining)] public static string NoticeError(string message, IDictionary<string, string> parameters) { return "stub"; }
    [MethodImpl(MethodImplOptions.NoInlining)] public static int NotInCore(int n) { return n + 1; }
  }
}
#else
static class Text {
  /// The same text for the same value, and another one for another object.
  public static string Of(object o) {
    if (o == null) return "null";
    string number = "@" + RuntimeHelpers.GetHashCode(o), type = o.GetType().ToString();
    if (o is string) return "\"" + o + "\"" + number;
    if (o is Exception) return type + ":" + ((Exception)o).Message + number;
    if (o is Array) return type + "{" + string.Join(",", ((Array)o).Cast<object>().Select(Of)) + "}" + number;
    return o is ValueType ? type + ":" + Convert.ToString(o, CultureInfo.InvariantCulture) : type + number;
  }
}
#endif
#if AGENT
namespace NewRelic.Agent.Core {
  public class AgentShim {
    static int calls;
#if SHAPE_10_54
    public static object GetFinishTracerDelegateFunc() { return (Func<object[], Action<object, Exception>>)GetFinishTracerDelegateParameterWrapper; }
    public static Action<object, Exception> GetFinishTracerDelegateParameterWrapper(object[] p) {
#if SHAPE_10_55
      return GetFinishTracerDelegate((string)p[0], (uint)p[1], (string)p[2], (string)p[3], (Type)p[4], (string)p[5], (string)p[6], (string)p[7], p[8], (object[])p[9], (ulong)p[10], (Type)p[11]);
#else
      return GetFinishTracerDelegate((string)p[0], (uint)p[1], (string)p[2], (string)p[3], (Type)p[4], (string)p[5], (string)p[6], (string)p[7], p[8], (object[])p[9], (ulong)p[10]);
#endif
    }
#endif
    public static Action<object, Exception> GetFinishTracerDelegate(string factory, uint flags, string metric, string assembly, Type type, string typeName, string method, string signature, object target, object[] arguments, ulong function
#if SHAPE_10_55
      , Type effective
#endif
    ) {
      int number = Interlocked.Increment(ref calls);
      string end = "";
#if SHAPE_10_55
      if (effective != null) end = " effective=" + effective;
#endif
      Console.WriteLine("SEEN START {0} {1} factory={2} flags=0x{3:x8} metric={4} assembly={5} type={6} typeName={7} method={8} signature=({9}) this={10} arguments={11}{12}", number, function, factory, flags, metric, assembly, type, typeName, method, signature, Text.Of(target), string.Join(",", arguments.Select(Text.Of)), end);
      var what = AppDomain.CurrentDomain.GetData("agent") as string;
      if (what == "throws at the start") throw new InvalidOperationException(what);
      if (what == "no tracer") return null;
      var enter = AppDomain.CurrentDomain.GetData("enter") as Action;
      if (enter != null) { AppDomain.CurrentDomain.SetData("enter", null); enter(); }
      return (result, exception) => {
        Console.WriteLine("SEEN FINISH {0} ret={1} ex={2}", number, Text.Of(result), Text.Of(exception));
        if (what == "throws at the end") throw new InvalidOperationException(what);
      };
    }
  }
  public class AgentApi {
    static void Seen(string text) { Console.WriteLine("SEEN API " + text); }
    public static void RecordMetric(string name, float value) { Seen("RecordMetric " + Text.Of(name) + " " + Text.Of(value)); }
    public static string NoticeError(Exception e) { Seen("NoticeError " + Text.Of(e)); return "agent"; }
    public static string NoticeError(string message, IDictionary<string, string> parameters) { Seen("NoticeError " + Text.Of(message) + " " + Text.Of(parameters)); return "agent with parameters"; }
  }
#if SHAPE_10_54
  public class ProfilerAgentMethodInvoker {
    static readonly Dictionary<string, MethodInfo> cache = new Dictionary<string, MethodInfo>();
    public static object GetInvoker() { return (Func<string, string, string, Type[], Type, object[], object>)GetAndInvokeMethodFromCache; }
    public static object GetAndInvokeMethodFromCache(string key, string className, string methodName, Type[] types, Type returnType, object[] args) {
      MethodInfo m;
      lock (cache) if (!cache.TryGetValue(key, out m)) { m = Type.GetType(className).GetMethod(methodName, types ?? new Type[0]); if (m == null || m.ReturnType != (returnType ?? typeof(void))) throw new MissingMethodException(className, methodName); cache[key] = m; }
      return m.Invoke(null, args);
    }
  }
#endif
}
#elif !API
namespace System.Runtime.InteropServices {
  // The reference assemblies are those of 3.1, which has no such attribute. Later runtimes know it by its name.
  [AttributeUsage(AttributeTargets.Method)] public sealed class UnmanagedCallersOnlyAttribute : Attribute { }
}
namespace Methods {
  using static Truth;
  using Api = NewRelic.Api.Agent.NewRelic;

  /// What tracers have to get.
  static class Truth {
    public static readonly BindingFlags All = BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.Static | BindingFlags.Instance | BindingFlags.DeclaredOnly;
    public static void Print(string text) { Console.WriteLine(text); }
    public static void Out(object text) { Print("OUT " + text); }
    /// Arguments.
    public static object[] A(params object[] all) { return all; }
    /// The only method of a name, or the one with these parameters.
    public static MethodBase M(Type type, string name, params Type[] parameters) {
      var all = type.GetMember(name, All).Cast<MethodBase>().Where(m => parameters.Length == 0 || m.GetParameters().Length == parameters.Length && !m.GetParameters().Where((p, i) => p.ParameterType != parameters[i]).Any()).ToArray();
      if (all.Length != 1) throw new MissingMethodException(type.ToString(), name);
      return all[0];
    }
    /// A method of an interface, as a class implements it explicitly.
    public static MethodBase Explicit(Type type, string end) { return type.GetMethods(All).Single(m => m.Name.EndsWith("." + end)); }
    static MethodBase Definition(MethodBase m) { return m.Module.ResolveMethod(m.MetadataToken); }
    static string Name(Type t) {
      if (t.IsByRef) return Name(t.GetElementType()) + "&";
      if (t.IsPointer) return Name(t.GetElementType()) + "*";
      if (t.IsArray) return Name(t.GetElementType()) + "[" + new string(',', t.GetArrayRank() - 1) + "]";
      if (t.IsGenericParameter) return (t.DeclaringMethod != null ? "!!" : "!") + t.GenericParameterPosition;
      if (t == typeof(void)) return "void";
      if (t.IsGenericType) return Plain(t.GetGenericTypeDefinition()) + "[" + string.Join(",", t.GetGenericArguments().Select(Name)) + "]";
      return Plain(t);
    }
    // Of a nested type, the name alone.
    static string Plain(Type t) { return t.IsNested ? t.Name : t.FullName; }
    public static string Signature(MethodBase m) { return string.Join(",", Definition(m).GetParameters().Select(p => Name(p.ParameterType))); }
    public static string Assembly(MethodBase m) { return m.Module.Assembly.GetName().Name; }
    public static string TypeName(MethodBase m) { return Definition(m).DeclaringType.FullName; }
    public static string Metric(MethodBase m) { return "Metric/" + TypeName(m) + "." + m.Name; }
    static bool Boxable(Type t) { return !t.IsByRef && !t.IsPointer && !t.IsByRefLike && t != typeof(TypedReference); }
    static string Identity(MethodBase m) {
      // Those of points with a metric, by default: with segments, scoped metrics, without recursive calls.
      int flags = 0x7400 | (m.IsDefined(typeof(AsyncStateMachineAttribute), false) ? 0x800000 : 0);
      return string.Format("factory=My.Factory flags=0x{0:x8} metric={1} assembly={2} type={3} typeName={4} method={5} signature=({6})", flags, Metric(m), Assembly(m), Definition(m).DeclaringType, TypeName(m), m.Name, Signature(m));
    }
    public static void WantStart(MethodBase m, object self, object[] arguments) {
      var parameters = Definition(m).GetParameters();
      if (parameters.Length != arguments.Length) throw new ArgumentException(m.ToString());
      Print(string.Format("WANT START {0} this={1} arguments={2}", Identity(m), Text.Of(self), string.Join(",", arguments.Select((a, i) => Boxable(parameters[i].ParameterType) ? Text.Of(a) : "null"))));
    }
    public static void WantFinish(object result, Exception e) { Print(string.Format("WANT FINISH ret={0} ex={1}", Text.Of(result), Text.Of(e))); }
    /// A call that gets a tracer: gives its result or its exception.
    public static object Traced(MethodBase m, object self, object[] arguments, Func<object> call) {
      WantStart(m, self, arguments);
      try { var result = call(); WantFinish(result, null); return result; } catch (Exception e) { WantFinish(null, e); return e; }
    }
    public static void Traced(MethodBase m, object self, object[] arguments, Action call) { Traced(m, self, arguments, () => { call(); return null; }); }
    /// The same for a constructor, whose receiver is its result.
    public static void Constructs(MethodBase m, object[] arguments, Func<object> call) { var made = call(); WantStart(m, made, arguments); WantFinish(null, null); }
    /// The same from inside of a method that has no other caller than native code.
    public static void Called(MethodBase m, object self, object[] arguments, object result) { WantStart(m, self, arguments); WantFinish(result, null); }
    /// A call that gets none, and the reason in the log.
    public static void Refused(string reason, MethodBase m, Func<object> call) { Print(string.Format("REFUSED {0}: [{1}]{2}.{3}({4})", reason, Assembly(m), TypeName(m), m.Name, Signature(m))); Out(call()); }
    /// The same for a method without a body, which is never compiled.
    public static void Unwritten(MethodBase m, Func<object> call) { Print("UNWRITTEN [" + Assembly(m) + "]" + TypeName(m) + "." + m.Name + "("); Out(call()); }
    public static void Refused(string reason, MethodBase m, Action call) { Refused(reason, m, () => { call(); return null; }); }
  }

  /// All shapes.
  static class Shapes {
    sealed class Shape { public string Name; public MethodBase[] Methods; public Action<MethodBase> Run; }
    static readonly List<Shape> all = new List<Shape>();
    /// A shape, and the methods that get points for it.
    public static void Add(string name, Action<MethodBase> run, params MethodBase[] methods) { all.Add(new Shape { Name = name, Methods = methods, Run = run }); }
    public static void Add(string name, MethodBase method, Action<MethodBase> run) { Add(name, run, method); }

    static void Points() {
      Func<string, string> text = System.Security.SecurityElement.Escape;
      Print("<extension><instrumentation>");
      var known = new HashSet<string>();
      foreach (var shape in all) foreach (var m in shape.Methods) {
        // One of several overloads has a point of its own, all of them have one together.
        var overloads = m.DeclaringType.GetMember(m.Name, All);
        bool one = overloads.Any(other => !shape.Methods.Contains(other));
        string matcher = "methodName=\"" + text(m.Name) + "\"" + (one ? " parameters=\"" + (Signature(m) == "" ? "void" : text(Signature(m))) + "\"" : "");
        var point = string.Format("<tracerFactory name=\"My.Factory\" metricName=\"{0}\"><match assemblyName=\"{1}\" className=\"{2}\"><exactMethodMatcher {3}/></match></tracerFactory>", text(Metric(m)), text(Assembly(m)), text(TypeName(m)), matcher);
        if (known.Add(point)) Print(point);
      }
      Print("</instrumentation></extension>");
    }
    public static int Main(string[] arguments) {
      Basic.Add(); Generics.Add(); Interop.Add(); More.Add();
      if (arguments.Length > 0 && arguments[0] == "points") { Points(); return 0; }
      foreach (var shape in all) { Print("SHAPE " + shape.Name); shape.Run(shape.Methods.FirstOrDefault()); }
      Print("END");
      return 0;
    }
  }

  interface IBasic { int Implemented(int n); }
  class BasicBase { public virtual string Overridden(string s) { return "base " + s; } }
  class Basic : BasicBase, IBasic {
    int counter;
    public void Empty() { }
    public int ClassParameter(Basic other) { return other == this ? 1 : 0; }
    public Basic ClassReturn() { return this; }
    public void ByReference(ref Basic other) { other = this; }
    public void PrimitiveByReference(ref int n) { n++; }
    public void Throws() { throw new InvalidOperationException("thrown"); }
    public int ThrowsAndCatches(int n) { try { throw new InvalidOperationException("caught"); } catch (InvalidOperationException e) { return n + e.Message.Length; } }
    public int Finally(int n) { try { n += 1; if (n == 4) return n; } finally { counter += n; } return n + counter; }
    public static string Static(string s) { return s + s; }
    public bool GivesOut(int n, out string s) { s = "out" + n; return true; }
    public int Implemented(int n) { return n + 1; }
    public int NestedTry(int n) {
      int r = 0;
      try {
        try { if (n == 1) throw new ArgumentException("one"); r += 1; }
        catch (ArgumentException) { try { r += 10; throw new InvalidOperationException("two"); } catch (InvalidOperationException e) when (e.Message == "two") { r += 100; } finally { r += 1000; } }
        finally { try { if (n == 2) throw new NotSupportedException("three"); } catch (NotSupportedException) { r += 10000; } finally { r += 100000; } }
        if (n == 3) return r;
        try { if (n == 4) throw new TimeoutException("four"); } finally { r += 1000000; }
      }
      catch (TimeoutException) { r += 10000000; }
      finally { counter += r; }
      return r;
    }
    public class Inner {
      [MethodImpl(MethodImplOptions.NoInlining)] public string Call(string s) { return "inner " + s; }
      [MethodImpl(MethodImplOptions.NoInlining)] public string Overload(int n) { return "int"; }
      [MethodImpl(MethodImplOptions.NoInlining)] public string Overload(string s) { return "string"; }
      [MethodImpl(MethodImplOptions.NoInlining)] public string Overload(int n, string s) { return "both"; }
    }
    public int Entered(int n) { return n + 1; }
    public override string Overridden(string s) { return "derived " + base.Overridden(s); }
    public Guid ValueReturn(int n) { return new Guid(n, 0, 0, new byte[8]); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void Deeper() { throw new InvalidOperationException("deeper"); }
    public void KeepsStack() { Deeper(); }
    public string Fourteen(int a, string b, long c, object d, double e, bool f, char g, byte[] h, float i, short j, ulong k, decimal l, DayOfWeek m, Type n) { return a + b + c + d + e + f + g + h.Length + i + j + k + l + m + n.Name; }

    public static void Add() {
      var basic = new Basic(); var other = new Basic(); var inner = new Inner(); var type = typeof(Basic);
      Action<string, string, Action<MethodBase>> add = (name, method, run) => Shapes.Add("basic/" + name, M(type, method), run);
      add("empty", "Empty", m => Traced(m, basic, A(), () => basic.Empty()));
      add("class parameter", "ClassParameter", m => { Traced(m, basic, A(other), () => basic.ClassParameter(other)); Traced(m, basic, A((object)null), () => basic.ClassParameter(null)); });
      add("class return", "ClassReturn", m => Traced(m, basic, A(), () => basic.ClassReturn()));
      add("class by reference", "ByReference", m => { var o = other; Traced(m, basic, A(o), () => basic.ByReference(ref o)); Out(o == basic); });
      add("primitive by reference", "PrimitiveByReference", m => { int n = 4; Traced(m, basic, A(n), () => basic.PrimitiveByReference(ref n)); Out(n); });
      add("throws", "Throws", m => Traced(m, basic, A(), () => basic.Throws()));
      add("throws and catches", "ThrowsAndCatches", m => Traced(m, basic, A(7), () => basic.ThrowsAndCatches(7)));
      add("finally", "Finally", m => { foreach (int n in new[] { 1, 3 }) Traced(m, basic, A(n), () => basic.Finally(n)); });
      add("static", "Static", m => Traced(m, null, A("s"), () => Static("s")));
      add("out", "GivesOut", m => { string s = null; Traced(m, basic, A(5, null), () => basic.GivesOut(5, out s)); Out(s); });
      add("interface", "Implemented", m => { IBasic i = basic; Traced(m, basic, A(8), () => i.Implemented(8)); });
      add("try blocks everywhere", "NestedTry", m => { for (int n = 0; n < 5; n++) { int k = n; Traced(m, basic, A(k), () => basic.NestedTry(k)); } });
      Shapes.Add("basic/inner class", M(typeof(Inner), "Call"), m => Traced(m, inner, A("x"), () => inner.Call("x")));
      Shapes.Add("more/API, missing in the agent", m => Out(Api.NotInCore(3)));
      add("called by the agent while it starts a tracer", "Entered", m => {
        Print("AGENT");
        AppDomain.CurrentDomain.SetData("enter", (Action)(() => Traced(m, other, A(2), () => other.Entered(2))));
        Traced(m, basic, A(1), () => basic.Entered(1));
        AppDomain.CurrentDomain.SetData("enter", null);
      });
      Shapes.Add("basic/API", m => { Print("AGENT"); Print("WANT API RecordMetric " + Text.Of("m") + " " + Text.Of(1.5f)); Api.RecordMetric("m", 1.5f); });
      Shapes.Add("basic/API, first overload", m => { Print("AGENT"); var e = new Exception("noticed"); Print("WANT API NoticeError " + Text.Of(e)); Out(Api.NoticeError(e) == "agent"); });
      Shapes.Add("basic/API, second overload", m => { Print("AGENT"); var p = new Dictionary<string, string>(); Print("WANT API NoticeError " + Text.Of("message") + " " + Text.Of(p)); Out(Api.NoticeError("message", p) == "agent with parameters"); });
      Shapes.Add("basic/overloads of an inner class", M(typeof(Inner), "Overload", typeof(string)), m => { Traced(m, inner, A("s"), () => inner.Overload("s")); Out(inner.Overload(1) + inner.Overload(1, "s")); });
      add("override", "Overridden", m => { BasicBase b = basic; Traced(m, basic, A("o"), () => b.Overridden("o")); Out(new BasicBase().Overridden("b")); });
      add("value return", "ValueReturn", m => Traced(m, basic, A(9), () => basic.ValueReturn(9)));
      add("stack trace is kept", "KeepsStack", m => { var e = (Exception)Traced(m, basic, A(), () => { basic.KeepsStack(); return null; }); var lines = e.StackTrace.Split('\n'); Out(lines[0].Contains("Deeper") && lines[1].Contains("KeepsStack")); });
      add("fourteen parameters", "Fourteen", m => { var bytes = new byte[3]; Traced(m, basic, A(1, "b", 3L, basic, 5.5, true, 'g', bytes, 9.25f, (short)10, 11UL, 12.5m, DayOfWeek.Friday, typeof(int)), () => basic.Fourteen(1, "b", 3, basic, 5.5, true, 'g', bytes, 9.25f, 10, 11, 12.5m, DayOfWeek.Friday, typeof(int))); });
    }
  }

  class Animal { public string Name = "animal"; }
  class Dog : Animal, IComparable<Dog> { public int CompareTo(Dog other) { return Name == other.Name ? 0 : 1; } }
  [StructLayout(LayoutKind.Auto)] struct Mixed { public object Reference; public int Number; public override string ToString() { return "Mixed " + Number + Text.Of(Reference); } }
  interface IGenericMethod { T Through<T>(T t); T Hidden<T>(T t); }
  interface IGeneric<T> { T Get(T t); T Secret(T t); }
  interface IOut<out T> { T Get(); }
  interface IIn<in T> { string Put(T t); }
  /// Generic methods of a type that is not generic.
  abstract class Outline { public virtual T Virtual<T>(T t) { return t; } public abstract T[] Abstract<T>(T t); }
  class Plain : Outline, IGenericMethod {
    public static T StaticReference<T>(T t) { return t; }
    public static T StaticValue<T>(T t) { return t; }
    public T Reference<T>(T t) { return t; }
    public T Value<T>(T t) { return t; }
    public void TwoVoid<TA, TB>(TA a, TB b) { }
    public TB Two<TA, TB>(TA a, TB b) { return b; }
    public T[] ReturnsArray<T>(T a, T b) { return new[] { a, b }; }
    public int TakesArray<T>(T[] all) { return all.Length; }
    public int TakesList<T>(List<T> all) { return all.Count; }
    public Dictionary<string, T> ReturnsMap<T>(T t) { return new Dictionary<string, T> { { "k", t } }; }
    public void ByReference<T>(ref T a, ref T b) { T c = a; a = b; b = c; }
    public bool Out<T>(T t, out T o) { o = t; return true; }
    public T OfClass<T>(T t) where T : class { return t; }
    public T OfStruct<T>(T t) where T : struct { return t; }
    public T OfNew<T>() where T : new() { return new T(); }
    public int OfInterface<T>(T a, T b) where T : IComparable<T> { return a.CompareTo(b); }
    public string OfBase<T>(T t) where T : Animal { return t.Name; }
    public TA OfParameter<TA, TB>(TB b) where TB : TA { return b; }
    public override T Virtual<T>(T t) { return t; }
    public override T[] Abstract<T>(T t) { return new[] { t }; }
    public T Through<T>(T t) { return t; }
    T IGenericMethod.Hidden<T>(T t) { return t; }
    public T Throws<T>(T t) { throw new InvalidOperationException(typeof(T).Name); }
    public int Parameters<T>(params T[] all) { return all.Length; }
    public T Instance<T>(T t) { return t; }
    public T Default<T>() { return default(T); }
    public string Deep<T>(T t, int n) { return n == 0 ? typeof(T).ToString() : Deeper(new List<T> { t }, n - 1); }
    public string Deeper<T>(T t, int n) { return (string)Traced(M(typeof(Plain), "Deep"), this, A(t, n), () => Deep(t, n)); }
    public IEnumerable<T> Iterate<T>(T t, int n) { for (int i = 0; i < n; i++) yield return t; }
    public async Task<T> Later<T>(T t) { await Task.Yield(); return t; }
    public Func<T> Captures<T>(T t) { return () => t; }
    public T Recovers<T>(T t, T other) where T : class { try { if (t == null) throw new ArgumentException(); return t; } catch (ArgumentException) { return other; } }
    public class Nested { [MethodImpl(MethodImplOptions.NoInlining)] public T Call<T>(T t) { return t; } }
  }
  class GenericBase<T> { public T Inherited(T t) { return t; } public virtual string Overridden(T t) { return "base"; } }
  /// Methods of generic types.
  class Generic<T> : GenericBase<T>, IGeneric<T> {
    public static T Shared;
    public T Field;
    public Generic(T t) { Field = t; }
    public T Plain(T t) { return t; }
    public static T Static(T t) { Shared = t; return Shared; }
    public override string Overridden(T t) { return "derived" + t; }
    public T Get(T t) { return t; }
    T IGeneric<T>.Secret(T t) { return t; }
    public int Composed(List<T> list, T[] array, Dictionary<string, T> map) { return list.Count + array.Length + map.Count; }
    public Generic<T> Itself(Generic<T> other) { return other; }
    public U ReferenceIn<U>(T t, U u) { return u; }
    public static U StaticIn<U>(T t, U u) { return u; }
    public virtual U VirtualIn<U>(T t, U u) { return u; }
    public KeyValuePair<T, U> Pair<U>(T t, U u) { return new KeyValuePair<T, U>(t, u); }
    public class Inner { [MethodImpl(MethodImplOptions.NoInlining)] public T Call(T t) { return t; } [MethodImpl(MethodImplOptions.NoInlining)] public static T Static(T t) { return t; } [MethodImpl(MethodImplOptions.NoInlining)] public U In<U>(T t, U u) { return u; } }
    public class InnerGeneric<U> { [MethodImpl(MethodImplOptions.NoInlining)] public U Call(T t, U u) { return u; } [MethodImpl(MethodImplOptions.NoInlining)] public V In<V>(T t, U u, V v) { return v; } }
    public IEnumerator<T> Iterate(T t) { yield return t; }
    public T Throws(T t) { throw new InvalidOperationException(typeof(T).Name); }
  }
  class Made<T> { public T Field; public Made(T t) { Field = t; } }
  class Holder { public class InnerGeneric<T> { [MethodImpl(MethodImplOptions.NoInlining)] public T Call(T t) { return t; } } }
  class Closed : GenericBase<int> { public override string Overridden(int n) { return "closed" + n; } }
  class TwoOf<TA, TB> { public TA Swap(TB b, TA a) { return a; } }
  class Classes<T> where T : class { public T Call(T t) { return t; } }
  class Structs<T> where T : struct { public T? Call(T t) { return t; } }
  class News<T> where T : new() { public T Call() { return new T(); } }
  class Comparables<T> where T : IComparable<T> { public T Greater(T a, T b) { return a.CompareTo(b) > 0 ? a : b; } }
  class Dependent<TA, TB> where TB : TA { public TA Call(TB b) { return b; } }
  class Covariant : IOut<Dog> { readonly Dog dog = new Dog(); public Dog Get() { return dog; } }
  class CovariantOf<T> : IOut<T> { public T Value; public T Get() { return Value; } }
  class Contravariant : IIn<Animal> { public string Put(Animal a) { return a.Name; } }
  class ContravariantOf<T> : IIn<T> { public string Put(T t) { return typeof(T).Name; } }
  [StructLayout(LayoutKind.Auto)] struct AutoGeneric<T> { public T Value; public T Get(T other) { return Value; } public static T Static(T t) { return t; } public override string ToString() { return "AutoGeneric " + Text.Of(Value); } }
  struct SequentialGeneric<T> { public T Value; public T Get() { return Value; } }
  static class Generics {
    public static void Add() {
      var plain = new Plain(); var dog = new Dog(); var animal = new Animal();
      Action<string, string, Action<MethodBase>> method = (name, member, run) => Shapes.Add("generics/method, " + name, M(typeof(Plain), member), run);
      method("static, reference", "StaticReference", m => Traced(m, null, A("s"), () => Plain.StaticReference("s")));
      method("static, value", "StaticValue", m => Traced(m, null, A(3), () => Plain.StaticValue(3)));
      method("instance, reference", "Reference", m => Traced(m, plain, A("s"), () => plain.Reference("s")));
      method("instance, value", "Value", m => { Traced(m, plain, A(3), () => plain.Value(3)); Traced(m, plain, A(4.5), () => plain.Value(4.5)); });
      method("two parameters, no result", "TwoVoid", m => { Traced(m, plain, A("s", 3), () => plain.TwoVoid("s", 3)); Traced(m, plain, A(3, "s"), () => plain.TwoVoid(3, "s")); });
      method("two parameters", "Two", m => { Traced(m, plain, A("s", 3), () => plain.Two("s", 3)); Traced(m, plain, A(3, dog), () => plain.Two(3, dog)); });
      method("returns an array", "ReturnsArray", m => { Traced(m, plain, A("s", null), () => plain.ReturnsArray("s", null)); Traced(m, plain, A(3, 4), () => plain.ReturnsArray(3, 4)); });
      method("takes an array", "TakesArray", m => { var s = new[] { "s" }; var n = new[] { 3 }; Traced(m, plain, A((object)s), () => plain.TakesArray(s)); Traced(m, plain, A(n), () => plain.TakesArray(n)); });
      method("takes a list", "TakesList", m => { var s = new List<string>(); var n = new List<int> { 1 }; Traced(m, plain, A(s), () => plain.TakesList(s)); Traced(m, plain, A(n), () => plain.TakesList(n)); });
      method("returns a generic instance", "ReturnsMap", m => { Traced(m, plain, A("s"), () => plain.ReturnsMap("s")); Traced(m, plain, A(3), () => plain.ReturnsMap(3)); });
      method("by reference", "ByReference", m => { string a = "a", b = "b"; int x = 1, y = 2; Traced(m, plain, A(a, b), () => plain.ByReference(ref a, ref b)); Traced(m, plain, A(x, y), () => plain.ByReference(ref x, ref y)); Out(a + b + x + y); });
      method("out", "Out", m => { string a = null; int x = 0; Traced(m, plain, A("o", a), () => plain.Out("o", out a)); Traced(m, plain, A(5, x), () => plain.Out(5, out x)); Out(a + x); });
      method("where class", "OfClass", m => Traced(m, plain, A(dog), () => plain.OfClass(dog)));
      method("where struct", "OfStruct", m => Traced(m, plain, A(DayOfWeek.Monday), () => plain.OfStruct(DayOfWeek.Monday)));
      method("where new()", "OfNew", m => { Traced(m, plain, A(), () => plain.OfNew<Dog>()); Traced(m, plain, A(), () => plain.OfNew<int>()); });
      method("where interface", "OfInterface", m => { Traced(m, plain, A(dog, dog), () => plain.OfInterface(dog, dog)); Traced(m, plain, A(3, 4), () => plain.OfInterface(3, 4)); });
      method("where base class", "OfBase", m => Traced(m, plain, A(dog), () => plain.OfBase(dog)));
      method("where another parameter", "OfParameter", m => { Traced(m, plain, A(dog), () => plain.OfParameter<Animal, Dog>(dog)); Traced(m, plain, A(3), () => plain.OfParameter<object, int>(3)); });
      method("override", "Virtual", m => { Outline o = plain; Traced(m, plain, A("s"), () => o.Virtual("s")); Traced(m, plain, A(3), () => o.Virtual(3)); });
      method("abstract", "Abstract", m => { Outline o = plain; Traced(m, plain, A("s"), () => o.Abstract("s")); Traced(m, plain, A(3), () => o.Abstract(3)); });
      method("interface", "Through", m => { IGenericMethod i = plain; Traced(m, plain, A("s"), () => i.Through("s")); Traced(m, plain, A(3), () => i.Through(3)); });
      Shapes.Add("generics/method, explicit interface", Explicit(typeof(Plain), "Hidden"), m => { IGenericMethod i = plain; Traced(m, plain, A("s"), () => i.Hidden("s")); Traced(m, plain, A(3), () => i.Hidden(3)); });
      method("throws", "Throws", m => { Traced(m, plain, A("s"), () => plain.Throws("s")); Traced(m, plain, A(3), () => plain.Throws(3)); });
      method("of a generic instance, an array, a nullable and a structure", "Instance", m => {
        var list = new List<int>(); var array = new[,] { { 1 } }; var mixed = new Mixed { Reference = dog, Number = 5 };
        Traced(m, plain, A(list), () => plain.Instance(list)); Traced(m, plain, A(array), () => plain.Instance(array));
        Traced(m, plain, A((int?)7), () => plain.Instance((int?)7)); Traced(m, plain, A((object)null), () => plain.Instance((int?)null));
        Traced(m, plain, A(mixed), () => plain.Instance(mixed)); Traced(m, plain, A(12.5m), () => plain.Instance(12.5m)); Traced(m, plain, A(new KeyValuePair<string, int>("k", 1)), () => plain.Instance(new KeyValuePair<string, int>("k", 1)));
      });
      method("default value", "Default", m => { Traced(m, plain, A(), () => plain.Default<string>()); Traced(m, plain, A(), () => plain.Default<Mixed>()); });
      method("types within types", "Deep", m => { plain.Deeper("s", 3); plain.Deeper(3, 3); });
      method("iterator", "Iterate", m => { Out(string.Join(",", (IEnumerable<string>)Traced(m, plain, A("s", 2), () => plain.Iterate("s", 2)))); Out(string.Join(",", (IEnumerable<int>)Traced(m, plain, A(3, 2), () => plain.Iterate(3, 2)))); });
      method("asynchronous", "Later", m => { Out(((Task<string>)Traced(m, plain, A("s"), () => plain.Later("s"))).Result); Out(((Task<int>)Traced(m, plain, A(3), () => plain.Later(3))).Result); });
      method("captures its argument", "Captures", m => { Out(((Func<string>)Traced(m, plain, A("s"), () => plain.Captures("s")))()); Out(((Func<int>)Traced(m, plain, A(3), () => plain.Captures(3)))()); });
      method("throws and catches", "Recovers", m => { Traced(m, plain, A(null, "o"), () => plain.Recovers(null, "o")); Traced(m, plain, A("s", "o"), () => plain.Recovers("s", "o")); });
      Shapes.Add("generics/method, inner class", M(typeof(Plain.Nested), "Call"), m => { var nested = new Plain.Nested(); Traced(m, nested, A("s"), () => nested.Call("s")); Traced(m, nested, A(3), () => nested.Call(3)); });

      var words = new Generic<string>("w"); var numbers = new Generic<int>(1);
      Action<string, string, Action<MethodBase>> type = (name, member, run) => Shapes.Add("generics/type, " + name, M(typeof(Generic<>), member), run);
      type("reference and value", "Plain", m => { Traced(m, words, A("s"), () => words.Plain("s")); Traced(m, numbers, A(3), () => numbers.Plain(3)); });
      type("static", "Static", m => { Traced(m, null, A("s"), () => Generic<string>.Static("s")); Traced(m, null, A(3), () => Generic<int>.Static(3)); Traced(m, null, A(animal), () => Generic<Animal>.Static(animal)); Out(Generic<string>.Shared + Generic<int>.Shared); });
      Shapes.Add("generics/type, constructor", M(typeof(Made<>), ".ctor"), m => { Constructs(m, A("s"), () => new Made<string>("s")); Constructs(m, A(3), () => new Made<int>(3)); });
      Shapes.Add("generics/type, inherited", M(typeof(GenericBase<>), "Inherited"), m => { Traced(m, words, A("s"), () => words.Inherited("s")); Traced(m, numbers, A(3), () => numbers.Inherited(3)); });
      type("override", "Overridden", m => { GenericBase<string> w = words; GenericBase<int> n = numbers; Traced(m, words, A("s"), () => w.Overridden("s")); Traced(m, numbers, A(3), () => n.Overridden(3)); });
      Shapes.Add("generics/type, derived from an instance", M(typeof(Closed), "Overridden"), m => { var closed = new Closed(); GenericBase<int> b = closed; Traced(m, closed, A(3), () => b.Overridden(3)); });
      type("interface", "Get", m => { IGeneric<string> w = words; IGeneric<int> n = numbers; Traced(m, words, A("s"), () => w.Get("s")); Traced(m, numbers, A(3), () => n.Get(3)); });
      Shapes.Add("generics/type, explicit interface", Explicit(typeof(Generic<>), "Secret"), m => { IGeneric<string> w = words; IGeneric<int> n = numbers; Traced(m, words, A("s"), () => w.Secret("s")); Traced(m, numbers, A(3), () => n.Secret(3)); });
      type("composed parameters", "Composed", m => { var l = new List<int>(); var a = new int[2]; var d = new Dictionary<string, int>(); Traced(m, numbers, A(l, a, d), () => numbers.Composed(l, a, d)); });
      type("itself", "Itself", m => { Traced(m, words, A(words), () => words.Itself(words)); Traced(m, numbers, A((object)null), () => numbers.Itself(null)); });
      Shapes.Add("generics/type, two parameters", M(typeof(TwoOf<,>), "Swap"), m => { var a = new TwoOf<string, int>(); var b = new TwoOf<int, string>(); Traced(m, a, A(3, "s"), () => a.Swap(3, "s")); Traced(m, b, A("s", 3), () => b.Swap("s", 3)); });
      Shapes.Add("generics/type, where class", M(typeof(Classes<>), "Call"), m => { var o = new Classes<Dog>(); Traced(m, o, A(dog), () => o.Call(dog)); });
      Shapes.Add("generics/type, where struct", M(typeof(Structs<>), "Call"), m => { var o = new Structs<long>(); Traced(m, o, A(4L), () => o.Call(4)); });
      Shapes.Add("generics/type, where new()", M(typeof(News<>), "Call"), m => { var o = new News<Dog>(); var n = new News<DateTime>(); Traced(m, o, A(), () => o.Call()); Traced(m, n, A(), () => n.Call()); });
      Shapes.Add("generics/type, where interface", M(typeof(Comparables<>), "Greater"), m => { var o = new Comparables<string>(); var n = new Comparables<int>(); Traced(m, o, A("a", "b"), () => o.Greater("a", "b")); Traced(m, n, A(3, 2), () => n.Greater(3, 2)); });
      Shapes.Add("generics/type, where another parameter", M(typeof(Dependent<,>), "Call"), m => { var o = new Dependent<Animal, Dog>(); Traced(m, o, A(dog), () => o.Call(dog)); });
      Shapes.Add("generics/type, inner class", M(typeof(Generic<>.Inner), "Call"), m => { var w = new Generic<string>.Inner(); var n = new Generic<int>.Inner(); Traced(m, w, A("s"), () => w.Call("s")); Traced(m, n, A(3), () => n.Call(3)); });
      Shapes.Add("generics/type, inner class, static", M(typeof(Generic<>.Inner), "Static"), m => { Traced(m, null, A("s"), () => Generic<string>.Inner.Static("s")); Traced(m, null, A(3), () => Generic<int>.Inner.Static(3)); });
      Shapes.Add("generics/type, inner generic class", M(typeof(Generic<>.InnerGeneric<>), "Call"), m => { var a = new Generic<string>.InnerGeneric<int>(); var b = new Generic<int>.InnerGeneric<string>(); Traced(m, a, A("s", 3), () => a.Call("s", 3)); Traced(m, b, A(3, "s"), () => b.Call(3, "s")); });
      Shapes.Add("generics/type, inner generic class of a plain class", M(typeof(Holder.InnerGeneric<>), "Call"), m => { var w = new Holder.InnerGeneric<string>(); var n = new Holder.InnerGeneric<int>(); Traced(m, w, A("s"), () => w.Call("s")); Traced(m, n, A(3), () => n.Call(3)); });

      type("generic method", "ReferenceIn", m => { Traced(m, words, A("s", dog), () => words.ReferenceIn("s", dog)); Traced(m, words, A("s", 3), () => words.ReferenceIn("s", 3)); Traced(m, numbers, A(3, "s"), () => numbers.ReferenceIn(3, "s")); Traced(m, numbers, A(3, 4L), () => numbers.ReferenceIn(3, 4L)); });
      type("static generic method", "StaticIn", m => { Traced(m, null, A("s", 3), () => Generic<string>.StaticIn("s", 3)); Traced(m, null, A(3, "s"), () => Generic<int>.StaticIn(3, "s")); });
      type("virtual generic method that returns both", "Pair", m => { Traced(m, words, A("s", 3), () => words.Pair("s", 3)); Traced(m, numbers, A(3, "s"), () => numbers.Pair(3, "s")); });
      Shapes.Add("generics/type, generic method of inner classes", m => {
        var inner = new Generic<string>.Inner(); var generic = new Generic<int>.InnerGeneric<string>();
        Traced(m, inner, A("s", 3), () => inner.In("s", 3)); Traced(M(typeof(Generic<>.InnerGeneric<>), "In"), generic, A(3, "s", 4.5), () => generic.In(3, "s", 4.5));
      }, M(typeof(Generic<>.Inner), "In"), M(typeof(Generic<>.InnerGeneric<>), "In"));
      Shapes.Add("generics/variance, covariant interface", m => { var c = new Covariant(); IOut<Animal> o = c; Traced(m, c, A(), () => o.Get()); var g = new CovariantOf<string> { Value = "v" }; IOut<object> i = g; Traced(M(typeof(CovariantOf<>), "Get"), g, A(), () => i.Get()); }, M(typeof(Covariant), "Get"), M(typeof(CovariantOf<>), "Get"));
      Shapes.Add("generics/variance, contravariant interface", m => { var c = new Contravariant(); IIn<Dog> i = c; Traced(m, c, A(dog), () => i.Put(dog)); var g = new ContravariantOf<object>(); IIn<string> s = g; Traced(M(typeof(ContravariantOf<>), "Put"), g, A("s"), () => s.Put("s")); }, M(typeof(Contravariant), "Put"), M(typeof(ContravariantOf<>), "Put"));
      Shapes.Add("generics/variance, delegate of a generic virtual method", M(typeof(Generic<>), "VirtualIn"), m => { Func<string, Dog, Animal> f = words.VirtualIn<Dog>; Traced(m, words, A("s", dog), () => f("s", dog)); Func<int, int, int> n = numbers.VirtualIn<int>; Traced(m, numbers, A(3, 4), () => n(3, 4)); });
      Shapes.Add("generics/structure", m => {
        var w = new AutoGeneric<string> { Value = "w" }; var n = new AutoGeneric<int> { Value = 6 }; var s = M(typeof(AutoGeneric<>), "Static");
        Traced(m, w, A("s"), () => w.Get("s")); Traced(m, n, A(3), () => n.Get(3)); Traced(s, null, A("s"), () => AutoGeneric<string>.Static("s")); Traced(s, null, A(3), () => AutoGeneric<int>.Static(3));
        var seq = new SequentialGeneric<int> { Value = 8 }; Refused("Skipping sequential layout method", M(typeof(SequentialGeneric<>), "Get"), () => seq.Get());
      }, M(typeof(AutoGeneric<>), "Get"), M(typeof(AutoGeneric<>), "Static"), M(typeof(SequentialGeneric<>), "Get"));
    }
  }

  delegate int Compare(ref int a, ref int b);
  delegate int CompareText(ref int a, ref int b, [MarshalAs(UnmanagedType.LPUTF8Str)] string text);
  unsafe delegate int ComparePointers(int* a, int* b);
  class Handle : Microsoft.Win32.SafeHandles.SafeHandleZeroOrMinusOneIsInvalid {
    public Handle() : base(true) { }
    protected override bool ReleaseHandle() { return Native.close((int)handle) == 0; }
  }
  static class Native {
    [DllImport("libc")] public static extern int getpid();
    [DllImport("libc")] public static extern IntPtr strlen([MarshalAs(UnmanagedType.LPUTF8Str)] string text);
    [DllImport("libc")] public static extern Handle dup(int file);
    [DllImport("libc")] public static extern int close(int file);
    [DllImport("libc")] public static extern void qsort([In, Out] int[] all, IntPtr count, IntPtr size, Compare compare);
    [DllImport("libc", EntryPoint = "qsort")] public static extern void qsort_by_pointer([In, Out] int[] all, IntPtr count, IntPtr size, IntPtr compare);
    [DllImport("libc")] public static extern void qsort_r([In, Out] int[] all, IntPtr count, IntPtr size, CompareText compare, [MarshalAs(UnmanagedType.LPUTF8Str)] string text);
  }
  [ComImport, Guid("7A0C7F2B-3A0C-4B64-9A39-0B2E6C6D4E11"), InterfaceType(ComInterfaceType.InterfaceIsIUnknown)] interface ICom { [PreserveSig] int Call([MarshalAs(UnmanagedType.BStr)] string text, [MarshalAs(UnmanagedType.VariantBool)] bool flag); }
  class Com : ICom { public int Call(string text, bool flag) { return flag ? text.Length : 0; } }
  unsafe class Callbacks {
    readonly int sign = -1;
    public static int Length([MarshalAs(UnmanagedType.LPWStr)] string text) { return (int)Native.strlen(text); }
    public static int Order(ref int a, ref int b) { int r = a.CompareTo(b); Called(M(typeof(Callbacks), "Order"), null, A(a, b), r); return r; }
    public int Reverse(ref int a, ref int b) { int r = sign * a.CompareTo(b); Called(M(typeof(Callbacks), "Reverse"), this, A(a, b), r); return r; }
    public static int OrderWithText(ref int a, ref int b, [MarshalAs(UnmanagedType.LPUTF8Str)] string text) { int r = a.CompareTo(b); Called(M(typeof(Callbacks), "OrderWithText"), null, A(a, b, text), r); return r; }
    [UnmanagedCallersOnly] public static int OrderPointers(int* a, int* b) { int r = a[0].CompareTo(b[0]); Called(M(typeof(Callbacks), "OrderPointers"), null, A(null, null), r); return r; }
    [MethodImpl(MethodImplOptions.NoInlining)] public static int Direct() { int a = 1, b = 2; return OrderPointers(&a, &b); }
    public static int Use(Handle handle) { return handle.IsInvalid ? 0 : 1; }
  }
  static class Interop {
    static string Sorted(Action<int[], IntPtr, IntPtr> sort) { var all = new[] { 3, 1, 2 }; sort(all, (IntPtr)all.Length, (IntPtr)4); return string.Join(",", all); }
    public static void Add() {
      var type = typeof(Callbacks); var callbacks = new Callbacks();
      Shapes.Add("interop/P/Invoke", M(typeof(Native), "getpid"), m => Unwritten(m, () => Native.getpid() == System.Diagnostics.Process.GetCurrentProcess().Id));
      Shapes.Add("interop/caller of P/Invoke", M(type, "Length"), m => Traced(m, null, A("gr\u00fc\u00dfe"), () => Callbacks.Length("gr\u00fc\u00dfe")));
      Shapes.Add("interop/callback", M(type, "Order"), m => Out(Sorted((all, count, size) => Native.qsort(all, count, size, Callbacks.Order))));
      Shapes.Add("interop/delegate as function pointer", M(type, "Reverse"), m => { Compare reverse = callbacks.Reverse; Out(Sorted((all, count, size) => Native.qsort_by_pointer(all, count, size, Marshal.GetFunctionPointerForDelegate(reverse)))); GC.KeepAlive(reverse); });
      Shapes.Add("interop/COM interface", M(typeof(Com), "Call"), m => { var com = new Com(); ICom i = com; Traced(m, com, A("text", true), () => i.Call("text", true)); });
      // Without meaning on 3.1.
      Shapes.Add("interop/UnmanagedCallersOnly", M(type, "OrderPointers"), m => Out(Environment.Version.Major < 5 ? Callbacks.Direct().ToString() : Sorted((all, count, size) => Native.qsort_by_pointer(all, count, size, ((MethodInfo)m).MethodHandle.GetFunctionPointer()))));
      Shapes.Add("interop/callback with marshaled text", M(type, "OrderWithText"), m => Out(Sorted((all, count, size) => Native.qsort_r(all, count, size, Callbacks.OrderWithText, "\u00e4"))));
      Shapes.Add("interop/SafeHandle", m => {
        var handle = Native.dup(1);
        Traced(m, null, A(handle), () => Callbacks.Use(handle));
        Traced(M(typeof(Handle), "ReleaseHandle"), handle, A(), () => { handle.Dispose(); return handle.IsClosed; });
      }, M(type, "Use"), M(typeof(Handle), "ReleaseHandle"));
    }
  }

  interface IThing { string Do(string s); int Size { get; } }
  class StaticConstructor { public static int Value; static StaticConstructor() { Value = 5; } }
  class Constructed { public static Constructed Last; public readonly int N = 3; public Constructed() { } public Constructed(int n, string s) : this() { N = n; } public Constructed(bool throws) { Last = this; if (throws) throw new InvalidOperationException("constructor"); } }
  abstract class Shaped { public abstract int Area(int n); protected abstract string Protected(); public string CallProtected() { return Protected(); } }
  sealed class Square : Shaped, IThing {
    public override int Area(int n) { return n * n; }
    protected override string Protected() { return "protected"; }
    string IThing.Do(string s) { return "thing " + s; }
    int IThing.Size { get { return 4; } }
    public new string ToString() { return "square"; }
    public override bool Equals(object o) { return o is Square; }
    public override int GetHashCode() { return 7; }
    internal string Internal() { return "internal"; }
  }
  class Special {
    int value = 1;
    public int Property { get { return value; } set { this.value = value; } }
    public int this[int i, string s] { get { return i + s.Length; } }
    public event Action Event;
    public void Raise() { if (Event != null) Event(); }
    public static Special operator +(Special a, Special b) { return a; }
    public static explicit operator int(Special a) { return 9; }
  }
  interface IBoxed { int Boxed(int n); }
  [StructLayout(LayoutKind.Auto)] struct Auto : IBoxed {
    public int Boxed(int n) { return n + X; }
    public int X; public string S;
    public Auto(int x) { X = x; S = "made"; }
    public int Sum(int n) { return X + n; }
    public void Change(int n) { X = n; S = "changed"; }
    public Auto Copy() { return this; }
    public static Auto Make(int n) { return new Auto { X = n }; }
    public override string ToString() { return "Auto " + X + S; }
  }
  [StructLayout(LayoutKind.Explicit)] struct Explicitly { [FieldOffset(0)] public int Whole; [FieldOffset(0)] public short Low; public int Get(int n) { return Whole + n; } public override string ToString() { return "Explicitly " + Whole; } }
  struct Sequential { public int X; public int Get() { return X; } public static int Static(int n) { return n; } public override string ToString() { return "Sequential " + X; } public class Within { [MethodImpl(MethodImplOptions.NoInlining)] public int Call(int n) { return n; } } }
  [StructLayout(LayoutKind.Sequential)] class SequentialClass { public int Call(int n) { return n; } }
  [StructLayout(LayoutKind.Explicit)] class ExplicitClass { [FieldOffset(0)] public int A; public int Call(int n) { return n + A; } }
  class Around { public struct Structure { public int X; [MethodImpl(MethodImplOptions.NoInlining)] public int Get(string s) { return X + s.Length; } public override string ToString() { return "Structure " + X; } } }
  [StructLayout(LayoutKind.Auto)] ref struct OnStack { public int X; public int Get(int n) { return X + n; } }
  static class Returns {
    public static void Void() { } public static bool Boolean() { return true; } public static char Char() { return 'x'; } public static sbyte SByte() { return -8; } public static byte Byte() { return 200; } public static short Int16() { return -16; } public static ushort UInt16() { return 65000; } public static int Int32() { return -32; } public static uint UInt32() { return 4000000000; }
    public static long Int64() { return long.MinValue; } public static ulong UInt64() { return ulong.MaxValue; } public static float Single() { return 1.5f; } public static double Double() { return -0.125; } public static decimal Decimal() { return 79228162514264337593543950335m; } public static IntPtr IntPtr() { return (IntPtr)(-5); } public static UIntPtr UIntPtr() { return (UIntPtr)5; } public static string String() { return "string"; } public static object Object() { return DayOfWeek.Friday; }
    public static DayOfWeek Enum() { return DayOfWeek.Sunday; } public static DateTime DateTime() { return new DateTime(2026, 1, 2); } public static int? Nullable() { return 6; } public static int? Null() { return null; } public static (int, string) Tuple() { return (1, "two"); } public static int[] Array() { return new[] { 1 }; } public static string[,] Matrix() { return new string[1, 2]; } public static Type Type() { return typeof(List<>); } public static Action Delegate() { return Void; } public static Mixed Structure() { return new Mixed { Number = 3 }; } public static dynamic Dynamic() { return 5; }
  }
  static class Extensions { public static string Twice(this string s) { return s + s; } }
  class Body {
    int field = 2;
    public static int Parameters(string s, params int[] all) { return all.Length; }
    public static string Optional(int a, string b = "default", int? c = null, decimal d = 1.5m) { return a + b + c + d; }
    public static int In(in int n, in Auto a) { return n + a.X; }
    public virtual int VirtualIn(in int n) { return n; }
    public static void RefOut(ref Auto a, out Mixed b, ref string c, out int? d) { a.X = 9; b = new Mixed { Number = 4 }; c = "c"; d = 4; }
    public static string Values(Auto a, Explicitly b, Sequential c, Around.Structure d, DayOfWeek e, decimal f, Guid g, DateTime h) { return "" + a + b + c + d + e + f + g + h.Year; }
    public static int Nullables(int? a, DateTime? b, DayOfWeek? c, Auto? d) { return (a.HasValue ? 1 : 0) + (b.HasValue ? 2 : 0) + (c.HasValue ? 4 : 0) + (d.HasValue ? 8 : 0); }
    public static int Primitives(bool a, char b, sbyte c, byte d, short e, ushort f, int g, uint h, long i, ulong j, float k, double l, IntPtr m, UIntPtr n, string o, object p) { return 16; }
    public static int Arrays(int[] a, string[,] b, int[][] c, Auto[] d, List<int>[] e, int[,,][] f) { return a.Length; }
    public static unsafe int Pointers(int* a, void* b, int** c, Auto d) { return *a; }
    public static unsafe int* ReturnsPointer(int* a) { return a; }
    public static ref int ReturnsReference(int[] a) { return ref a[1]; }
    public static ref readonly int ReturnsReadOnly(int[] a) { return ref a[1]; }
    public static int Spans(Span<int> a, ReadOnlySpan<char> b, int c) { return a.Length + b.Length + c; }
    public static Span<int> ReturnsSpan(int[] a) { return a; }
    public static int Reference(TypedReference r) { return 1; }
    public static int OnStack(OnStack o, string s) { return o.X + s.Length; }
    public static unsafe int StackAllocated(int n) { int* all = stackalloc int[n]; for (int i = 0; i < n; i++) all[i] = i; int sum = 0; for (int i = 0; i < n; i++) sum += all[i]; return sum; }
    public static unsafe int Fixed(int[] a) { fixed (int* p = a) { return p[0] + p[a.Length - 1]; } }
    public static string Delegates(Func<int, string> a, Action b) { b(); return a(1); }
    public static string Tuples((int, string) a, Tuple<int> b) { return a.Item2 + b.Item1; }
    public static int Dynamic(dynamic d) { return (int)(object)d + 1; }
    public static int Nested(Environment.SpecialFolder f, Dictionary<string, int>.Enumerator e, Around.Structure? s) { return (int)f; }
    // The two bytes of `~~` become the prefix `tail.`.
    public static int Tail(int n) { return TailTarget(n, ~~(n + n)); }
    [MethodImpl(MethodImplOptions.NoInlining)] static int TailTarget(int a, int b) { return a + b; }
    public static int Recursive(int n) { return n == 0 ? 0 : n + Again(n - 1); }
    public static int Again(int n) { return (int)Traced(M(typeof(Body), "Recursive"), null, A(n), () => Recursive(n)); }
    public static IEnumerable<int> Iterator(int n) { try { for (int i = 0; i < n; i++) yield return i; } finally { Out("iterator is over"); } }
    public IEnumerator Enumerator() { yield return field; }
    public static async Task Task(int n) { await System.Threading.Tasks.Task.Yield(); if (n == 1) throw new InvalidOperationException("later"); }
    public static async Task<string> TaskOf(string s) { await System.Threading.Tasks.Task.Delay(1); return s; }
    public static async void Void(ManualResetEvent over) { await System.Threading.Tasks.Task.Yield(); over.Set(); }
    // The compiler cannot make one that is asynchronous.
    public static ValueTask ValueTask(int n) { return n == 1 ? new ValueTask(System.Threading.Tasks.Task.Delay(1)) : default(ValueTask); }
    public static async ValueTask<int> ValueTaskOf(Task<int> other) { return await other; }
    public static async Task<int> Partly(int n) { await System.Threading.Tasks.Task.Yield(); return n; }
    public static int Partly(string s) { return s.Length; }
    public static Task<int> TaskWithoutAsync(int n) { return System.Threading.Tasks.Task.FromResult(n); }
    public static int Lambda(int n) { Func<int, int> f = x => x * 2; return f(n); }
    public Func<int, int> Closure(int n) { return x => x + n + field; }
    public static void Rethrows(int n) { try { throw new InvalidOperationException("again"); } catch (InvalidOperationException) { field2++; throw; } }
    static int field2;
    public static void Wraps(int n) { try { throw new InvalidOperationException("inside"); } catch (InvalidOperationException e) { throw new ArgumentException("outside", e); } }
    public static int Filters(int n) { try { if (n == 0) throw new ArgumentException("zero"); throw new InvalidOperationException("other"); } catch (Exception e) when (e.Message == "zero" && n == 0) { return 1; } catch (InvalidOperationException) when (n > 1) { return 2; } catch { return 3; } }
    public static void EndsInCatch(int n) { try { if (n == 1) throw new InvalidOperationException(); } catch (InvalidOperationException) { field2 += n; } }
    public static void EndsInFinally(int n) { try { if (n == 1) return; field2++; } finally { field2 += n; } }
    public static int EndsInThrow(int n) { if (n == 0) return 5; if (n == 1) return 6; throw new ArgumentOutOfRangeException("n"); }
    public static int Endless(int n) { while (true) { if (n++ > 5) throw new InvalidOperationException("end " + n); } }
    public static int LoopReturns(int n) { for (int i = 0; ; i++) { foreach (var x in new[] { 1, 2, 3 }) { if (i * x == n) return i; if (i > 100) return -1; } } }
    public static int Loops(int n) { for (int i = 0; i < 9; i++) { foreach (var x in new[] { 1, 2, 3 }) { if (i * x == n) return i; } } return -1; }
    public static int ThrowsInFinally(int n) { try { throw new InvalidOperationException("first"); } finally { if (n == 1) throw new ArgumentException("second"); } }
    public static int Locks(object o) { lock (o) { using (var s = new System.IO.MemoryStream()) { s.WriteByte(1); return (int)s.Length; } } }
    public static void NullReference(Body b) { b.field++; }
    public static int Overflows(int n) { return checked(n + int.MaxValue); }
    public static int Divides(int n) { return 10 / n; }
    public static unsafe void StackProbe(string s, int n) { if (n > 0) { int* big = stackalloc int[20000]; big[0] = 1; field2 += big[0]; } }
    public static int Goto(int n) { again: if (n > 100) return n; n *= 3; if (n == 9) goto nine; goto again; nine: return -9; }
    public static string Switches(string s) { switch (s) { case "a": return "A"; case "b": return "B"; case "c": case "d": return "CD"; case "e": return "E"; case "f": return "F"; case "g": return "G"; case "h": return "H"; default: return null; } }
    public static int Table(int n) { switch (n) { case 0: return 0; case 1: return 3; case 2: return 6; case 3: return 9; case 4: return 12; case 5: return 15; case 6: return 18; case 7: return 21; case 8: return 24; case 9: return 27; case 10: return 30; case 11: return 33; case 12: return 36; case 13: return 39; case 14: return 42; case 15: return 45; case 16: return 48; case 17: return 51; case 18: return 54; case 19: return 57; case 20: return 60; case 21: return 63; case 22: return 66; case 23: return 69; case 24: return 72; case 25: return 75; case 26: return 78; case 27: return 81; case 28: return 84; case 29: return 87; case 30: return 90; case 31: return 93; case 32: return 96; case 33: return 99; case 34: return 102; case 35: return 105; case 36: return 108; case 37: return 111; case 38: return 114; case 39: return 117; } return -1; }
    public static int Long(int n) { if (n == 0) return n + 0; if (n == 1) return n + 7; if (n == 2) return n + 14; if (n == 3) return n + 21; if (n == 4) return n + 28; if (n == 5) return n + 35; if (n == 6) return n + 42; if (n == 7) return n + 49; if (n == 8) return n + 56; if (n == 9) return n + 63; if (n == 10) return n + 70; if (n == 11) return n + 77; if (n == 12) return n + 84; if (n == 13) return n + 91; if (n == 14) return n + 98; if (n == 15) return n + 105; if (n == 16) return n + 112; if (n == 17) return n + 119; if (n == 18) return n + 126; if (n == 19) return n + 133; if (n == 20) return n + 140; if (n == 21) return n + 147; if (n == 22) return n + 154; if (n == 23) return n + 161; if (n == 24) return n + 168; if (n == 25) return n + 175; if (n == 26) return n + 182; if (n == 27) return n + 189; if (n == 28) return n + 196; if (n == 29) return n + 203; if (n == 30) return n + 210; if (n == 31) return n + 217; if (n == 32) return n + 224; if (n == 33) return n + 231; if (n == 34) return n + 238; if (n == 35) return n + 245; if (n == 36) return n + 252; if (n == 37) return n + 259; if (n == 38) return n + 266; if (n == 39) return n + 273; if (n == 40) return n + 280; if (n == 41) return n + 287; if (n == 42) return n + 294; if (n == 43) return n + 301; if (n == 44) return n + 308; if (n == 45) return n + 315; if (n == 46) return n + 322; if (n == 47) return n + 329; if (n == 48) return n + 336; if (n == 49) return n + 343; if (n == 50) return n + 350; if (n == 51) return n + 357; if (n == 52) return n + 364; if (n == 53) return n + 371; if (n == 54) return n + 378; if (n == 55) return n + 385; if (n == 56) return n + 392; if (n == 57) return n + 399; if (n == 58) return n + 406; if (n == 59) return n + 413; if (n == 60) return n + 420; if (n == 61) return n + 427; if (n == 62) return n + 434; if (n == 63) return n + 441; if (n == 64) return n + 448; if (n == 65) return n + 455; if (n == 66) return n + 462; if (n == 67) return n + 469; if (n == 68) return n + 476; if (n == 69) return n + 483; if (n == 70) return n + 490; if (n == 71) return n + 497; if (n == 72) return n + 504; if (n == 73) return n + 511; if (n == 74) return n + 518; if (n == 75) return n + 525; if (n == 76) return n + 532; if (n == 77) return n + 539; if (n == 78) return n + 546; if (n == 79) return n + 553; if (n == 80) return n + 560; if (n == 81) return n + 567; if (n == 82) return n + 574; if (n == 83) return n + 581; if (n == 84) return n + 588; if (n == 85) return n + 595; if (n == 86) return n + 602; if (n == 87) return n + 609; if (n == 88) return n + 616; if (n == 89) return n + 623; if (n == 90) return n + 630; if (n == 91) return n + 637; if (n == 92) return n + 644; if (n == 93) return n + 651; if (n == 94) return n + 658; if (n == 95) return n + 665; if (n == 96) return n + 672; if (n == 97) return n + 679; if (n == 98) return n + 686; if (n == 99) return n + 693; if (n == 100) return n + 700; if (n == 101) return n + 707; if (n == 102) return n + 714; if (n == 103) return n + 721; if (n == 104) return n + 728; if (n == 105) return n + 735; if (n == 106) return n + 742; if (n == 107) return n + 749; if (n == 108) return n + 756; if (n == 109) return n + 763; if (n == 110) return n + 770; if (n == 111) return n + 777; if (n == 112) return n + 784; if (n == 113) return n + 791; if (n == 114) return n + 798; if (n == 115) return n + 805; if (n == 116) return n + 812; if (n == 117) return n + 819; if (n == 118) return n + 826; if (n == 119) return n + 833; if (n == 120) return n + 840; if (n == 121) return n + 847; if (n == 122) return n + 854; if (n == 123) return n + 861; if (n == 124) return n + 868; if (n == 125) return n + 875; if (n == 126) return n + 882; if (n == 127) return n + 889; if (n == 128) return n + 896; if (n == 129) return n + 903; if (n == 130) return n + 910; if (n == 131) return n + 917; if (n == 132) return n + 924; if (n == 133) return n + 931; if (n == 134) return n + 938; if (n == 135) return n + 945; if (n == 136) return n + 952; if (n == 137) return n + 959; if (n == 138) return n + 966; if (n == 139) return n + 973; if (n == 140) return n + 980; if (n == 141) return n + 987; if (n == 142) return n + 994; if (n == 143) return n + 1001; if (n == 144) return n + 1008; if (n == 145) return n + 1015; if (n == 146) return n + 1022; if (n == 147) return n + 1029; if (n == 148) return n + 1036; if (n == 149) return n + 1043; return -1; }
    public static int Locals(int n) { int v0 = n, v1 = v0 + 1, v2 = v1 + 2, v3 = v2 + 0, v4 = v3 + 1, v5 = v4 + 2, v6 = v5 + 0, v7 = v6 + 1, v8 = v7 + 2, v9 = v8 + 0, v10 = v9 + 1, v11 = v10 + 2, v12 = v11 + 0, v13 = v12 + 1, v14 = v13 + 2, v15 = v14 + 0, v16 = v15 + 1, v17 = v16 + 2, v18 = v17 + 0, v19 = v18 + 1, v20 = v19 + 2, v21 = v20 + 0, v22 = v21 + 1, v23 = v22 + 2, v24 = v23 + 0, v25 = v24 + 1, v26 = v25 + 2, v27 = v26 + 0, v28 = v27 + 1, v29 = v28 + 2, v30 = v29 + 0, v31 = v30 + 1, v32 = v31 + 2, v33 = v32 + 0, v34 = v33 + 1, v35 = v34 + 2, v36 = v35 + 0, v37 = v36 + 1, v38 = v37 + 2, v39 = v38 + 0, v40 = v39 + 1, v41 = v40 + 2, v42 = v41 + 0, v43 = v42 + 1, v44 = v43 + 2, v45 = v44 + 0, v46 = v45 + 1, v47 = v46 + 2, v48 = v47 + 0, v49 = v48 + 1, v50 = v49 + 2, v51 = v50 + 0, v52 = v51 + 1, v53 = v52 + 2, v54 = v53 + 0, v55 = v54 + 1, v56 = v55 + 2, v57 = v56 + 0, v58 = v57 + 1, v59 = v58 + 2, v60 = v59 + 0, v61 = v60 + 1, v62 = v61 + 2, v63 = v62 + 0, v64 = v63 + 1, v65 = v64 + 2, v66 = v65 + 0, v67 = v66 + 1, v68 = v67 + 2, v69 = v68 + 0, v70 = v69 + 1, v71 = v70 + 2, v72 = v71 + 0, v73 = v72 + 1, v74 = v73 + 2, v75 = v74 + 0, v76 = v75 + 1, v77 = v76 + 2, v78 = v77 + 0, v79 = v78 + 1, v80 = v79 + 2, v81 = v80 + 0, v82 = v81 + 1, v83 = v82 + 2, v84 = v83 + 0, v85 = v84 + 1, v86 = v85 + 2, v87 = v86 + 0, v88 = v87 + 1, v89 = v88 + 2, v90 = v89 + 0, v91 = v90 + 1, v92 = v91 + 2, v93 = v92 + 0, v94 = v93 + 1, v95 = v94 + 2, v96 = v95 + 0, v97 = v96 + 1, v98 = v97 + 2, v99 = v98 + 0, v100 = v99 + 1, v101 = v100 + 2, v102 = v101 + 0, v103 = v102 + 1, v104 = v103 + 2, v105 = v104 + 0, v106 = v105 + 1, v107 = v106 + 2, v108 = v107 + 0, v109 = v108 + 1, v110 = v109 + 2, v111 = v110 + 0, v112 = v111 + 1, v113 = v112 + 2, v114 = v113 + 0, v115 = v114 + 1, v116 = v115 + 2, v117 = v116 + 0, v118 = v117 + 1, v119 = v118 + 2, v120 = v119 + 0, v121 = v120 + 1, v122 = v121 + 2, v123 = v122 + 0, v124 = v123 + 1, v125 = v124 + 2, v126 = v125 + 0, v127 = v126 + 1, v128 = v127 + 2, v129 = v128 + 0, v130 = v129 + 1, v131 = v130 + 2, v132 = v131 + 0, v133 = v132 + 1, v134 = v133 + 2, v135 = v134 + 0, v136 = v135 + 1, v137 = v136 + 2, v138 = v137 + 0, v139 = v138 + 1, v140 = v139 + 2, v141 = v140 + 0, v142 = v141 + 1, v143 = v142 + 2, v144 = v143 + 0, v145 = v144 + 1, v146 = v145 + 2, v147 = v146 + 0, v148 = v147 + 1, v149 = v148 + 2, v150 = v149 + 0, v151 = v150 + 1, v152 = v151 + 2, v153 = v152 + 0, v154 = v153 + 1, v155 = v154 + 2, v156 = v155 + 0, v157 = v156 + 1, v158 = v157 + 2, v159 = v158 + 0, v160 = v159 + 1, v161 = v160 + 2, v162 = v161 + 0, v163 = v162 + 1, v164 = v163 + 2, v165 = v164 + 0, v166 = v165 + 1, v167 = v166 + 2, v168 = v167 + 0, v169 = v168 + 1, v170 = v169 + 2, v171 = v170 + 0, v172 = v171 + 1, v173 = v172 + 2, v174 = v173 + 0, v175 = v174 + 1, v176 = v175 + 2, v177 = v176 + 0, v178 = v177 + 1, v179 = v178 + 2, v180 = v179 + 0, v181 = v180 + 1, v182 = v181 + 2, v183 = v182 + 0, v184 = v183 + 1, v185 = v184 + 2, v186 = v185 + 0, v187 = v186 + 1, v188 = v187 + 2, v189 = v188 + 0, v190 = v189 + 1, v191 = v190 + 2, v192 = v191 + 0, v193 = v192 + 1, v194 = v193 + 2, v195 = v194 + 0, v196 = v195 + 1, v197 = v196 + 2, v198 = v197 + 0, v199 = v198 + 1, v200 = v199 + 2, v201 = v200 + 0, v202 = v201 + 1, v203 = v202 + 2, v204 = v203 + 0, v205 = v204 + 1, v206 = v205 + 2, v207 = v206 + 0, v208 = v207 + 1, v209 = v208 + 2, v210 = v209 + 0, v211 = v210 + 1, v212 = v211 + 2, v213 = v212 + 0, v214 = v213 + 1, v215 = v214 + 2, v216 = v215 + 0, v217 = v216 + 1, v218 = v217 + 2, v219 = v218 + 0, v220 = v219 + 1, v221 = v220 + 2, v222 = v221 + 0, v223 = v222 + 1, v224 = v223 + 2, v225 = v224 + 0, v226 = v225 + 1, v227 = v226 + 2, v228 = v227 + 0, v229 = v228 + 1, v230 = v229 + 2, v231 = v230 + 0, v232 = v231 + 1, v233 = v232 + 2, v234 = v233 + 0, v235 = v234 + 1, v236 = v235 + 2, v237 = v236 + 0, v238 = v237 + 1, v239 = v238 + 2, v240 = v239 + 0, v241 = v240 + 1, v242 = v241 + 2, v243 = v242 + 0, v244 = v243 + 1, v245 = v244 + 2, v246 = v245 + 0, v247 = v246 + 1, v248 = v247 + 2, v249 = v248 + 0, v250 = v249 + 1, v251 = v250 + 2, v252 = v251 + 0, v253 = v252 + 1, v254 = v253 + 2, v255 = v254 + 0, v256 = v255 + 1, v257 = v256 + 2, v258 = v257 + 0, v259 = v258 + 1, v260 = v259 + 2, v261 = v260 + 0, v262 = v261 + 1, v263 = v262 + 2, v264 = v263 + 0, v265 = v264 + 1, v266 = v265 + 2, v267 = v266 + 0, v268 = v267 + 1, v269 = v268 + 2; return v269; }
    public static int Deep(int n) { int r = 0; try { try { try { try { try { try { try { try { try { try { try { try { try { try { try { try { try { try { try { try { try { try { try { try { try { if (n == 1) throw new ArgumentException("deep"); r += n; } catch (InvalidOperationException) { r += 0; } } finally { r += 1; } } catch (InvalidOperationException) { r += 2; } } finally { r += 3; } } catch (InvalidOperationException) { r += 4; } } finally { r += 5; } } catch (InvalidOperationException) { r += 6; } } finally { r += 7; } } catch (InvalidOperationException) { r += 8; } } finally { r += 9; } } catch (InvalidOperationException) { r += 10; } } finally { r += 11; } } catch (InvalidOperationException) { r += 12; } } finally { r += 13; } } catch (InvalidOperationException) { r += 14; } } finally { r += 15; } } catch (InvalidOperationException) { r += 16; } } finally { r += 17; } } catch (InvalidOperationException) { r += 18; } } finally { r += 19; } } catch (InvalidOperationException) { r += 20; } } finally { r += 21; } } catch (InvalidOperationException) { r += 22; } } finally { r += 23; } } catch (ArgumentException) { r += 1000; } return r; }
    public static int Wide(int p0, int p1, int p2, int p3, int p4, int p5, int p6, int p7, int p8, int p9, int p10, int p11, int p12, int p13, int p14, int p15, int p16, int p17, int p18, int p19, int p20, int p21, int p22, int p23, int p24, int p25, int p26, int p27, int p28, int p29, int p30, int p31, int p32, int p33, int p34, int p35, int p36, int p37, int p38, int p39, int p40, int p41, int p42, int p43, int p44, int p45, int p46, int p47, int p48, int p49, int p50, int p51, int p52, int p53, int p54, int p55, int p56, int p57, int p58, int p59, int p60, int p61, int p62, int p63, int p64, int p65, int p66, int p67, int p68, int p69, int p70, int p71, int p72, int p73, int p74, int p75, int p76, int p77, int p78, int p79, int p80, int p81, int p82, int p83, int p84, int p85, int p86, int p87, int p88, int p89, int p90, int p91, int p92, int p93, int p94, int p95, int p96, int p97, int p98, int p99, int p100, int p101, int p102, int p103, int p104, int p105, int p106, int p107, int p108, int p109, int p110, int p111, int p112, int p113, int p114, int p115, int p116, int p117, int p118, int p119, int p120, int p121, int p122, int p123, int p124, int p125, int p126, int p127, int p128, int p129, int p130, int p131, int p132, int p133, int p134, int p135, int p136, int p137, int p138, int p139, int p140, int p141, int p142, int p143, int p144, int p145, int p146, int p147, int p148, int p149, int p150, int p151, int p152, int p153, int p154, int p155, int p156, int p157, int p158, int p159, int p160, int p161, int p162, int p163, int p164, int p165, int p166, int p167, int p168, int p169, int p170, int p171, int p172, int p173, int p174, int p175, int p176, int p177, int p178, int p179, int p180, int p181, int p182, int p183, int p184, int p185, int p186, int p187, int p188, int p189, int p190, int p191, int p192, int p193, int p194, int p195, int p196, int p197, int p198, int p199, int p200, int p201, int p202, int p203, int p204, int p205, int p206, int p207, int p208, int p209, int p210, int p211, int p212, int p213, int p214, int p215, int p216, int p217, int p218, int p219, int p220, int p221, int p222, int p223, int p224, int p225, int p226, int p227, int p228, int p229, int p230, int p231, int p232, int p233, int p234, int p235, int p236, int p237, int p238, int p239, int p240, int p241, int p242, int p243, int p244, int p245, int p246, int p247, int p248, int p249, int p250, int p251, int p252, int p253, int p254, int p255, int p256, int p257, int p258, int p259) { return p0 + p255 + p256 + p259; }
    [MethodImpl(MethodImplOptions.Synchronized)] public int Synchronized(int n) { return n + field; }
    [MethodImpl(MethodImplOptions.AggressiveInlining)] public static int Inlined(int n) { return n + 1; }
    [MethodImpl(MethodImplOptions.NoOptimization | MethodImplOptions.NoInlining)] public static int Unoptimized(int n) { return n + 1; }
    [System.Diagnostics.DebuggerHidden, Obsolete] public static int Attributed(int n) { return n + 1; }
    private static int Private(int n) { return n; }
    public static int CallPrivate(int n) { return (int)Traced(M(typeof(Body), "Private"), null, A(n), () => Private(n)); }
    [MethodImpl(MethodImplOptions.NoInlining)] static int Deepest(int n) { throw new InvalidOperationException("deepest"); }
    public static int Passes(int n) { return Deepest(n); }
    public static int Agent(int n) { if (n == 1) throw new ArgumentException("one"); return n + 1; }
    public static object Boxed(object o) { return o; }
    public static void Aborts(CancellationToken t) { t.ThrowIfCancellationRequested(); }
    public static int Instances(int n) { return n; }
    public int Field(int n) { return field + n; }
  }
  class Finalized { public static volatile bool Over; ~Finalized() { Over = true; } }
  class \u0391\u03b2 { public string \u00dcber(string s) { return s; } }
  unsafe static class More {
    public static void Add() {
      var body = new Body(); var type = typeof(Body); var square = new Square();
      Action<string, string, Action<MethodBase>> add = (name, method, run) => Shapes.Add("more/" + name, M(type, method), run);
      Action<string, string, string, Action<MethodBase>> on = (name, owner, method, run) => Shapes.Add("more/" + name, M(System.Type.GetType("Methods." + owner, true), method), run);
      foreach (var returns in typeof(Returns).GetMethods(All)) {
        var method = returns;
        Shapes.Add("more/returns " + method.Name, method, m => Traced(m, null, A(), () => method.Invoke(null, null)));
      }
      // Members.
      on("abstract method", "Square", "Area", m => { Shaped s = square; Traced(m, square, A(3), () => s.Area(3)); });
      on("protected method", "Square", "Protected", m => { Shaped s = square; Traced(m, square, A(), () => s.CallProtected()); });
      on("internal method", "Square", "Internal", m => Traced(m, square, A(), () => square.Internal()));
      on("new method", "Square", "ToString", m => { Traced(m, square, A(), () => square.ToString()); Out(((object)square).ToString()); });
      on("Equals", "Square", "Equals", m => Traced(m, square, A(body), () => square.Equals(body)));
      on("GetHashCode", "Square", "GetHashCode", m => Traced(m, square, A(), () => square.GetHashCode()));
      add("private method", "Private", m => Body.CallPrivate(4));
      Shapes.Add("more/explicit interface", Explicit(typeof(Square), "Do"), m => { IThing t = square; Traced(m, square, A("s"), () => t.Do("s")); });
      Shapes.Add("more/explicit property of an interface", Explicit(typeof(Square), "get_Size"), m => { IThing t = square; Refused("Skipping SpecialName method", m, () => t.Size); });
      Shapes.Add("more/abstract declaration", M(typeof(Shaped), "Area"), m => Unwritten(m, () => square is Shaped));
      Shapes.Add("more/interface declaration", M(typeof(IThing), "Do"), m => Unwritten(m, () => square is IThing));
      Shapes.Add("more/constructor", M(typeof(Constructed), ".ctor", typeof(int), typeof(string)), m => Constructs(m, A(7, "s"), () => new Constructed(7, "s")));
      Shapes.Add("more/constructor that throws", M(typeof(Constructed), ".ctor", typeof(bool)), m => { Exception e = null; try { new Constructed(true); } catch (InvalidOperationException caught) { e = caught; } WantStart(m, Constructed.Last, A(true)); WantFinish(null, e); });
      Shapes.Add("more/static constructor", M(typeof(StaticConstructor), ".cctor"), m => Refused("Skipping SpecialName method", m, () => StaticConstructor.Value));
      Shapes.Add("more/finalizer", M(typeof(Finalized), "Finalize"), m => { Forget(m); for (int i = 0; i < 1000 && !Finalized.Over; i++) { GC.Collect(); GC.WaitForPendingFinalizers(); } WantFinish(null, null); Out(Finalized.Over); });
      var special = new Special(); Action none = () => { };
      on("property, get", "Special", "get_Property", m => Refused("Skipping SpecialName method", m, () => special.Property));
      on("property, set", "Special", "set_Property", m => Refused("Skipping SpecialName method", m, () => { special.Property = 3; }));
      on("indexer", "Special", "get_Item", m => Refused("Skipping SpecialName method", m, () => special[1, "s"]));
      on("event, add", "Special", "add_Event", m => Refused("Skipping SpecialName method", m, () => { special.Event += none; }));
      on("event, remove", "Special", "remove_Event", m => Refused("Skipping SpecialName method", m, () => { special.Event -= none; }));
      on("event, raised", "Special", "Raise", m => Traced(m, special, A(), () => special.Raise()));
      on("operator", "Special", "op_Addition", m => Refused("Skipping SpecialName method", m, () => (special + special) == special));
      on("conversion", "Special", "op_Explicit", m => Refused("Skipping SpecialName method", m, () => (int)special));
      on("extension method", "Extensions", "Twice", m => Traced(m, null, A("e"), () => "e".Twice()));
      Shapes.Add("more/names beyond ASCII", typeof(\u0391\u03b2).GetMethod("\u00dcber"), m => { var o = new \u0391\u03b2(); Traced(m, o, A("\ud83d\ude00"), () => o.\u00dcber("\ud83d\ude00")); });
      Func<int, string, string> plainLambda = (n, s) => s + n; int captured = 8; Func<int, int> closure = n => n + captured;
      Shapes.Add("more/lambda", plainLambda.Method, m => Traced(m, plainLambda.Target, A(2, "l"), () => plainLambda(2, "l")));
      Shapes.Add("more/closure", closure.Method, m => Traced(m, closure.Target, A(2), () => closure(2)));

      // Value types.
      var auto = new Auto { X = 1, S = "s" };
      on("automatic layout", "Auto", "Sum", m => Traced(m, auto, A(2), () => auto.Sum(2)));
      on("automatic layout, changed by its method", "Auto", "Change", m => { Traced(m, auto, A(6), () => auto.Change(6)); Out(auto); });
      on("automatic layout, returned", "Auto", "Copy", m => Traced(m, auto, A(), () => auto.Copy()));
      on("automatic layout, static", "Auto", "Make", m => Traced(m, null, A(7), () => Auto.Make(7)));
      on("automatic layout, constructor", "Auto", ".ctor", m => { WantStart(m, default(Auto), A(8)); object made = new Auto(8); WantFinish(null, null); Out(made); });
      on("automatic layout, boxed", "Auto", "Boxed", m => { IBoxed boxed = auto; Traced(m, boxed, A(2), () => boxed.Boxed(2)); });
      on("explicit layout", "Explicitly", "Get", m => { var o = new Explicitly { Whole = 70000 }; Traced(m, o, A(1), () => o.Get(1)); });
      on("nested structure", "Around+Structure", "Get", m => { var o = new Around.Structure { X = 5 }; Traced(m, o, A("n"), () => o.Get("n")); });
      on("sequential layout", "Sequential", "Get", m => { var o = new Sequential { X = 5 }; Refused("Skipping sequential layout method", m, () => o.Get()); });
      on("sequential layout, static", "Sequential", "Static", m => Refused("Skipping sequential layout method", m, () => Sequential.Static(4)));
      on("class in a sequential structure", "Sequential+Within", "Call", m => Refused("Skipping sequential layout method", m, () => new Sequential.Within().Call(4)));
      on("sequential class", "SequentialClass", "Call", m => Refused("Skipping sequential layout method", m, () => new SequentialClass().Call(4)));
      on("explicit class", "ExplicitClass", "Call", m => { var o = new ExplicitClass { A = 2 }; Traced(m, o, A(4), () => o.Call(4)); });
      on("structure on the stack only", "OnStack", "Get", m => { Func<object> call = () => { var o = new OnStack { X = 4 }; return o.Get(3); }; Traced(m, null, A(3), call); });

      // Parameters and results.
      var numbers = new[] { 1, 2, 3 };
      add("params", "Parameters", m => Traced(m, null, A("s", numbers), () => Body.Parameters("s", numbers)));
      Shapes.Add("more/params of a generic method", M(typeof(Plain), "Parameters"), m => { var p = new Plain(); var s = new[] { "s", "t" }; Traced(m, p, A((object)s), () => p.Parameters(s)); Traced(m, p, A(numbers), () => p.Parameters(numbers)); });
      add("optional parameters", "Optional", m => Traced(m, null, A(1, "default", null, 1.5m), () => Body.Optional(1)));
      add("in", "In", m => { int n = 3; Traced(m, null, A(n, auto), () => Body.In(n, auto)); });
      add("in, virtual", "VirtualIn", m => { int n = 3; Traced(m, body, A(n), () => body.VirtualIn(n)); });
      add("ref and out", "RefOut", m => { var a = auto; Mixed b = default(Mixed); string c = ""; int? d = null; Traced(m, null, A(a, b, c, d), () => Body.RefOut(ref a, out b, ref c, out d)); Out(a + " " + b.Number + c + d); });
      add("value types", "Values", m => { var a = auto; var b = new Explicitly { Low = 2 }; var c = new Sequential { X = 3 }; var d = new Around.Structure { X = 4 }; var h = new DateTime(2026, 1, 2); Traced(m, null, A(a, b, c, d, DayOfWeek.Friday, 1.5m, Guid.Empty, h), () => Body.Values(a, b, c, d, DayOfWeek.Friday, 1.5m, Guid.Empty, h)); });
      add("nullables", "Nullables", m => { var a = auto; Traced(m, null, A(1, null, DayOfWeek.Friday, a), () => Body.Nullables(1, null, DayOfWeek.Friday, a)); });
      add("primitives", "Primitives", m => Traced(m, null, A(true, 'c', (sbyte)-1, (byte)2, (short)-3, (ushort)4, -5, 6u, -7L, 8ul, 1.5f, -2.5, (IntPtr)9, (UIntPtr)10, "s", body), () => Body.Primitives(true, 'c', -1, 2, -3, 4, -5, 6, -7, 8, 1.5f, -2.5, (IntPtr)9, (UIntPtr)10, "s", body)));
      add("arrays", "Arrays", m => { var b = new string[1, 2]; var c = new[] { numbers }; var d = new[] { auto }; var e = new List<int>[1]; var f = new int[1, 1, 1][]; Traced(m, null, A(numbers, b, c, d, e, f), () => Body.Arrays(numbers, b, c, d, e, f)); });
      add("pointers", "Pointers", m => { var a = auto; Traced(m, null, A(null, null, null, a), () => { int n = 77; int* p = &n; return Body.Pointers(p, p, &p, a); }); });
      add("returns a pointer", "ReturnsPointer", m => Refused("A type of the signature has no token.", m, () => { int n = 77; return *Body.ReturnsPointer(&n); }));
      add("returns a reference", "ReturnsReference", m => Refused("By ref tokenization not supported.", m, () => Body.ReturnsReference(numbers)));
      add("returns a read-only reference", "ReturnsReadOnly", m => Refused("By ref tokenization not supported.", m, () => Body.ReturnsReadOnly(numbers)));
      add("spans", "Spans", m => Traced(m, null, A(null, null, 4), () => Body.Spans(numbers, "text".AsSpan(), 4)));
      // Printed as null, as it cannot be boxed.
      add("returns a span", "ReturnsSpan", m => Traced(m, null, A(numbers), () => { if (Body.ReturnsSpan(numbers).Length != 3) throw new Exception(); return null; }));
      add("typed reference", "Reference", m => { Func<object> call = () => { int n = 1; n++; return Body.Reference(__makeref(n)); }; Traced(m, null, A((object)null), call); });
      add("takes a structure on the stack only", "OnStack", m => { Func<object> call = () => Body.OnStack(new OnStack { X = 3 }, "s"); Traced(m, null, A(null, "s"), call); });
      add("stackalloc", "StackAllocated", m => Traced(m, null, A(6), () => Body.StackAllocated(6)));
      add("fixed", "Fixed", m => Traced(m, null, A(numbers), () => Body.Fixed(numbers)));
      add("delegates", "Delegates", m => { Func<int, string> f = n => "f" + n; Action a = () => Out("called"); Traced(m, null, A(f, a), () => Body.Delegates(f, a)); });
      add("tuples", "Tuples", m => { var t = Tuple.Create(3); Traced(m, null, A((1, "two"), t), () => Body.Tuples((1, "two"), t)); });
      add("dynamic", "Dynamic", m => Traced(m, null, A(41), () => (object)Body.Dynamic((object)41)));
      add("nested types of the framework", "Nested", m => { var e = new Dictionary<string, int>().GetEnumerator(); var s = new Around.Structure { X = 1 }; Traced(m, null, A(Environment.SpecialFolder.Desktop, e, s), () => Body.Nested(Environment.SpecialFolder.Desktop, e, s)); });
      add("boxed", "Boxed", m => { object o = 5; Traced(m, null, A(o), () => Body.Boxed(o)); Traced(m, null, A((object)null), () => Body.Boxed(null)); });
      add("many parameters", "Wide", m => Traced(m, null, Enumerable.Range(0, 260).Cast<object>().ToArray(), () => Body.Wide(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141, 142, 143, 144, 145, 146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 156, 157, 158, 159, 160, 161, 162, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 174, 175, 176, 177, 178, 179, 180, 181, 182, 183, 184, 185, 186, 187, 188, 189, 190, 191, 192, 193, 194, 195, 196, 197, 198, 199, 200, 201, 202, 203, 204, 205, 206, 207, 208, 209, 210, 211, 212, 213, 214, 215, 216, 217, 218, 219, 220, 221, 222, 223, 224, 225, 226, 227, 228, 229, 230, 231, 232, 233, 234, 235, 236, 237, 238, 239, 240, 241, 242, 243, 244, 245, 246, 247, 248, 249, 250, 251, 252, 253, 254, 255, 256, 257, 258, 259)));

      // Bodies.
      add("tail call", "Tail", m => Traced(m, null, A(5), () => Body.Tail(5)));
      add("recursion", "Recursive", m => Body.Again(4));
      add("iterator", "Iterator", m => Out(string.Join(",", (IEnumerable<int>)Traced(m, null, A(3), () => Body.Iterator(3)))));
      add("enumerator", "Enumerator", m => { var e = (IEnumerator)Traced(m, body, A(), () => body.Enumerator()); e.MoveNext(); Out(e.Current); });
      add("async Task", "Task", m => { ((Task)Traced(m, null, A(0), () => Body.Task(0))).Wait(); try { ((Task)Traced(m, null, A(1), () => Body.Task(1))).GetAwaiter().GetResult(); } catch (InvalidOperationException e) { Out(e.Message); } });
      add("async Task of", "TaskOf", m => Out(((Task<string>)Traced(m, null, A("s"), () => Body.TaskOf("s"))).Result));
      add("async void", "Void", m => { var over = new ManualResetEvent(false); Traced(m, null, A(over), () => Body.Void(over)); Out(over.WaitOne(30000)); });
      add("ValueTask without async", "ValueTask", m => { Traced(m, null, A(0), () => Body.ValueTask(0)); ((ValueTask)Traced(m, null, A(1), () => Body.ValueTask(1))).AsTask().Wait(); });
      add("async ValueTask of", "ValueTaskOf", m => {
        // Its text says whether it is complete.
        var complete = System.Threading.Tasks.Task.FromResult(1); var later = new TaskCompletionSource<int>();
        Traced(m, null, A(complete), () => Body.ValueTaskOf(complete));
        var task = ((ValueTask<int>)Traced(m, null, A(later.Task), () => Body.ValueTaskOf(later.Task))).AsTask();
        later.SetResult(2); Out(task.Result);
      });
      Shapes.Add("more/overloads, one of them async", m => {
        var n = M(type, "Partly", typeof(string));
        Traced(n, null, A("s"), () => Body.Partly("s")); ((Task)Traced(m, null, A(1), () => Body.Partly(1))).Wait(); Traced(n, null, A("s"), () => Body.Partly("s"));
      }, M(type, "Partly", typeof(int)), M(type, "Partly", typeof(string)));
      add("Task without async", "TaskWithoutAsync", m => Traced(m, null, A(3), () => Body.TaskWithoutAsync(3)));
      add("lambda inside", "Lambda", m => Traced(m, null, A(3), () => Body.Lambda(3)));
      add("closure inside", "Closure", m => Out(((Func<int, int>)Traced(m, body, A(3), () => body.Closure(3)))(4)));
      add("rethrows", "Rethrows", m => Traced(m, null, A(3), () => Body.Rethrows(3)));
      add("wraps an exception", "Wraps", m => Out(((Exception)Traced(m, null, A(3), () => { Body.Wraps(3); return null; })).InnerException.Message));
      add("filters", "Filters", m => { foreach (int n in new[] { 0, 1, 2 }) Traced(m, null, A(n), () => Body.Filters(n)); });
      add("passes a filter outside", "Passes", m => { string order = ""; try { Traced(m, null, A(1), () => { try { Body.Passes(1); } catch (Exception e) when ((order += e.Message) == "") { } return null; }); } finally { Out(order); } });
      add("ends in catch", "EndsInCatch", m => { foreach (int n in new[] { 0, 1 }) Traced(m, null, A(n), () => Body.EndsInCatch(n)); });
      add("ends in finally", "EndsInFinally", m => { foreach (int n in new[] { 0, 1 }) Traced(m, null, A(n), () => Body.EndsInFinally(n)); });
      add("ends in throw", "EndsInThrow", m => { Refused("Skipping invalid method", m, () => Body.EndsInThrow(1)); try { Body.EndsInThrow(2); } catch (ArgumentOutOfRangeException e) { Out(e.ParamName); } });
      add("does not end", "Endless", m => Traced(m, null, A(0), () => Body.Endless(0)));
      add("returns from a loop without end", "LoopReturns", m => Refused("Skipping invalid method", m, () => string.Join(",", new[] { 0, 9, -1 }.Select(Body.LoopReturns))));
      add("returns from loops", "Loops", m => { foreach (int n in new[] { 0, 9, -1 }) Traced(m, null, A(n), () => Body.Loops(n)); });
      add("throws in finally", "ThrowsInFinally", m => { foreach (int n in new[] { 0, 1 }) Traced(m, null, A(n), () => Body.ThrowsInFinally(n)); });
      add("lock and using", "Locks", m => Traced(m, null, A(body), () => Body.Locks(body)));
      add("null reference", "NullReference", m => Traced(m, null, A((object)null), () => Body.NullReference(null)));
      add("overflow", "Overflows", m => Traced(m, null, A(1), () => Body.Overflows(1)));
      add("division", "Divides", m => { Traced(m, null, A(0), () => Body.Divides(0)); Traced(m, null, A(3), () => Body.Divides(3)); });
      add("cancellation", "Aborts", m => { using (var source = new CancellationTokenSource()) { source.Cancel(); var t = source.Token; Traced(m, null, A(t), () => Body.Aborts(t)); } });
      add("large frame", "StackProbe", m => { foreach (int n in new[] { 0, 1 }) Traced(m, null, A("s", n), () => Body.StackProbe("s", n)); });
      add("goto", "Goto", m => { foreach (int n in new[] { 1, 2, 200 }) Traced(m, null, A(n), () => Body.Goto(n)); });
      add("switch of texts", "Switches", m => { foreach (var s in new[] { "a", "d", "h", "i" }) Traced(m, null, A(s), () => Body.Switches(s)); });
      add("switch of numbers", "Table", m => { foreach (int n in new[] { 0, 39, 40 }) Traced(m, null, A(n), () => Body.Table(n)); });
      add("long", "Long", m => { foreach (int n in new[] { 0, 149, 150 }) Traced(m, null, A(n), () => Body.Long(n)); });
      add("many locals", "Locals", m => Traced(m, null, A(1), () => Body.Locals(1)));
      add("deep nesting", "Deep", m => { foreach (int n in new[] { 1, 2 }) Traced(m, null, A(n), () => Body.Deep(n)); });
      add("synchronized", "Synchronized", m => Traced(m, body, A(3), () => body.Synchronized(3)));
      add("aggressive inlining", "Inlined", m => Traced(m, null, A(3), () => Body.Inlined(3)));
      add("no optimization", "Unoptimized", m => Traced(m, null, A(3), () => Body.Unoptimized(3)));
      add("hidden from the debugger", "Attributed", m => { var call = (Func<int, int>)Delegate.CreateDelegate(typeof(Func<int, int>), (MethodInfo)m); Traced(m, null, A(3), () => call(3)); });
      add("by reflection", "Field", m => Traced(m, body, A(3), () => ((MethodInfo)m).Invoke(body, A(3))));
      // One after the other, so that lines come in order.
      add("by many threads", "Instances", m => { for (int i = 0; i < 4; i++) { int n = i; var thread = new Thread(() => Traced(m, null, A(n), () => Body.Instances(n))); thread.Start(); thread.Join(); } });

      // Of the framework, as another compiler has made them.
      Shapes.Add("more/framework, generic method", typeof(Enumerable).GetMethods().Single(m => m.Name == "SequenceEqual" && m.GetParameters().Length == 2), m => { var a = new List<int> { 1, 2 }; var b = new List<int> { 1, 3 }; Traced(m, null, A(a, b), () => a.SequenceEqual(b)); Traced(m, null, A(a, a), () => a.SequenceEqual(a)); });
      Shapes.Add("more/framework, static method with many returns", M(typeof(Uri), "CheckHostName"), m => { foreach (var s in new[] { "", "host", "::1", "1.2.3.4", "a b" }) Traced(m, null, A(s), () => Uri.CheckHostName(s)); });
      Shapes.Add("more/framework, method of a generic type", M(typeof(SortedSet<>), "Contains"), m => { var s = new SortedSet<int> { 1, 2, 3, 4 }; Traced(m, s, A(3), () => s.Contains(3)); Traced(m, s, A(5), () => s.Contains(5)); var w = new SortedSet<string> { "a" }; Traced(m, w, A("a"), () => w.Contains("a")); });
      Shapes.Add("more/framework, clauses", M(typeof(System.Collections.Concurrent.ConcurrentBag<>), "TryTake"), m => { var bag = new System.Collections.Concurrent.ConcurrentBag<string> { "x" }; string got = null; Traced(m, bag, A(got), () => bag.TryTake(out got)); Traced(m, bag, A(got), () => bag.TryTake(out got)); Out(got); });

      Shapes.Add("more/iterator of a generic type", M(typeof(Generic<>), "Iterate"), m => { var g = new Generic<int>(1); var e = (IEnumerator<int>)Traced(m, g, A(3), () => g.Iterate(3)); e.MoveNext(); Out(e.Current); });
      Shapes.Add("more/throws in a generic type", M(typeof(Generic<>), "Throws"), m => { var g = new Generic<string>("g"); Traced(m, g, A("s"), () => g.Throws("s")); });

      // What the agent does wrong.
      foreach (var fault in new[] { "throws at the start", "no tracer", "throws at the end" }) {
        string name = fault;
        add("agent: " + name, "Agent", m => {
          Print("AGENT");
          AppDomain.CurrentDomain.SetData("agent", name);
          foreach (int n in new[] { 0, 1 }) {
            WantStart(m, null, A(n));
            object result = null; Exception e = null;
            try { result = Body.Agent(n); } catch (ArgumentException caught) { e = caught; }
            if (name == "throws at the end") WantFinish(result, e);
            Out(result + (e == null ? "" : e.Message));
          }
          AppDomain.CurrentDomain.SetData("agent", null);
        });
      }
    }
    [MethodImpl(MethodImplOptions.NoInlining)] static void Forget(MethodBase m) { WantStart(m, new Finalized(), A()); }
  }
}
#endif
