// A managed agent that prints one line for each tracer that is started or finished. The symbol SHAPE_10_54 gives it the members
// that came with agent 10.54, SHAPE_10_55 those of 10.55 in addition. With
// AGENT_WITHOUT_ARRAYS=true no tracer is started with an array of all values. With AGENT_QUIET=true nothing is printed, with
// AGENT_COUNT=true only how many tracers there were, at the end. With AGENT_FAILS=type the type that starts tracers cannot be
// initialized, with AGENT_FAILS=call it throws for each tracer. With the symbol LIBRARY its method needs a library.
using System;
using System.Collections.Generic;
using System.Reflection;
namespace NewRelic.Agent.Core {
  static class Text {
    public static string Of(object o) {
      if (o == null) return "null";
      var a = o as Array;
      if (a != null) { var s = new List<string>(); foreach (var x in a) s.Add(Of(x)); return o.GetType().Name + "{" + string.Join(",", s.ToArray()) + "}"; }
      return o.GetType().FullName + ":" + o.ToString();
    }
  }
  public class AgentShim {
    internal static readonly bool Fails = Failing();
    internal static readonly bool Counts = Counted();
    internal static readonly bool Quiet = Counts || Environment.GetEnvironmentVariable("AGENT_QUIET") == "true";
    internal static long started, finished;
    static bool Failing() {
      string how = Environment.GetEnvironmentVariable("AGENT_FAILS");
      if (how == "type") throw new InvalidOperationException("no type");
      return how == "call";
    }
    static bool Counted() {
      if (Environment.GetEnvironmentVariable("AGENT_COUNT") != "true") return false;
      AppDomain.CurrentDomain.ProcessExit += (sender, e) => Console.WriteLine("TRACERS started={0} finished={1}", started, finished);
      return true;
    }
#if SHAPE_10_54
    public static object GetFinishTracerDelegateFunc() { return (Func<object[], Action<object, Exception>>)GetFinishTracerDelegateParameterWrapper; }
    public static Action<object, Exception> GetFinishTracerDelegateParameterWrapper(object[] p) {
      if (Environment.GetEnvironmentVariable("AGENT_WITHOUT_ARRAYS") == "true") throw new InvalidOperationException("called with an array");
#if SHAPE_10_55
      return GetFinishTracerDelegate((string)p[0], (uint)p[1], (string)p[2], (string)p[3], (Type)p[4], (string)p[5], (string)p[6], (string)p[7], p[8], (object[])p[9], (ulong)p[10], (Type)p[11]);
#else
      return GetFinishTracerDelegate((string)p[0], (uint)p[1], (string)p[2], (string)p[3], (Type)p[4], (string)p[5], (string)p[6], (string)p[7], p[8], (object[])p[9], (ulong)p[10]);
#endif
    }
#endif
#if SHAPE_10_55
    public static Action<object, Exception> GetFinishTracerDelegate(String tracerFactoryName, UInt32 tracerArguments, String metricName, String assemblyName, Type type, String typeName, String methodName, String argumentSignature, Object invocationTarget, Object[] args, UInt64 functionId, Type effectiveReturnType) {
#else
    public static Action<object, Exception> GetFinishTracerDelegate(String tracerFactoryName, UInt32 tracerArguments, String metricName, String assemblyName, Type type, String typeName, String methodName, String argumentSignature, Object invocationTarget, Object[] args, UInt64 functionId) {
#endif
      if (Counts) System.Threading.Interlocked.Increment(ref started);
      if (Fails) throw new InvalidOperationException("no tracer");
#if LIBRARY
      global::NewRelic.Api.Agent.NewRelic.GetAgent();
#endif
      if (!Quiet) Console.WriteLine("GETTRACER factory={0} args=0x{1:x8} metric={2} asm={3} type={4} typeName={5} method={6} sig=({7}) this={8} params={9} fid={10}", tracerFactoryName, tracerArguments, metricName, assemblyName, type, typeName, methodName, argumentSignature, invocationTarget == null ? "null" : invocationTarget.GetType().FullName, Text.Of(args), functionId != 0 ? "nz" : "0");
      return new TracerWrapper(typeName + "." + methodName).FinishTracer;
    }
  }
  public class TracerWrapper {
    readonly string id;
    public TracerWrapper(string id) { this.id = id; }
    public void FinishTracer(object returnValue, Exception exception) {
      if (AgentShim.Counts) System.Threading.Interlocked.Increment(ref AgentShim.finished);
      if (!AgentShim.Quiet) Console.WriteLine("FINISH {0} ret={1} ex={2}", id, Text.Of(returnValue), exception == null ? "null" : exception.GetType().FullName + ":" + exception.Message);
    }
  }
  // What methods of the API reach.
  public class AgentApi {
    public static void RecordMetric(String name, Single value) { Console.WriteLine("API RecordMetric {0} {1}", name, value); }
    public static string GetBrowserTimingHeader() { return "header-from-core"; }
    public static void NoticeError(Exception e) { Console.WriteLine("API NoticeError {0}", e.Message); }
  }
#if SHAPE_10_54
  // What the helpers in the core library ask for.
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
