// Loads an assembly (symbol PLUGIN) so that it can be unloaded, calls it and unloads it, again and again; makes assemblies while it
// runs, also on several threads. Prints what the calls return and whether all is unloaded.
using System;
using System.IO;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;
using System.Threading;
#if PLUGIN
public class Plugin {
  public int Add(int n) { return n + 1; }
  public static T Same<T>(T t) { return t; }
  public class Inner { public string Twice(string s) { return s + s; } }
}
#else
public static class Plugins {
  [MethodImpl(MethodImplOptions.NoInlining)] static WeakReference Load(string path, int turn) {
    var context = new AssemblyLoadContext("plugin" + turn, true);
    var assembly = context.LoadFromAssemblyPath(path);
    Type type = assembly.GetType("Plugin"), inner = assembly.GetType("Plugin+Inner");
    Console.WriteLine("loaded {0} {1} {2}", type.GetMethod("Add").Invoke(Activator.CreateInstance(type), new object[] { turn }), type.GetMethod("Same").MakeGenericMethod(typeof(string)).Invoke(null, new object[] { "s" }), inner.GetMethod("Twice").Invoke(Activator.CreateInstance(inner), new object[] { "q" }));
    context.Unload();
    return new WeakReference(context);
  }
  static int Emit(int n, AssemblyBuilderAccess access) {
    var module = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("Emitted"), access).DefineDynamicModule("Emitted");
    int sum = 0;
    for (int k = 0; k < 3; k++) {
      var type = module.DefineType("Emitted.Type" + k, TypeAttributes.Public);
      var il = type.DefineMethod("Add", MethodAttributes.Public | MethodAttributes.Static, typeof(int), new[] { typeof(int) }).GetILGenerator();
      il.Emit(OpCodes.Ldarg_0); il.Emit(OpCodes.Ldc_I4, k); il.Emit(OpCodes.Add); il.Emit(OpCodes.Ret);
      sum += (int)type.CreateType().GetMethod("Add").Invoke(null, new object[] { n });
    }
    return sum;
  }
  public static int Main(string[] arguments) {
    for (int turn = 0; turn < 5; turn++) {
      var context = Load(arguments[0], turn);
      for (int i = 0; i < 200 && context.IsAlive; i++) { GC.Collect(); GC.WaitForPendingFinalizers(); }
      Console.WriteLine("unloaded {0}", !context.IsAlive);
    }
    Console.WriteLine("emitted {0} {1}", Emit(1, AssemblyBuilderAccess.Run), Emit(1, AssemblyBuilderAccess.RunAndCollect));
    int wrong = 0;
    var threads = new Thread[4];
    for (int i = 0; i < threads.Length; i++) {
      int n = i;
      threads[i] = new Thread(() => { for (int turn = 0; turn < 10; turn++) { if (Emit(n, AssemblyBuilderAccess.RunAndCollect) != 3 * n + 3) Interlocked.Increment(ref wrong); GC.Collect(); } });
      threads[i].Start();
    }
    foreach (var thread in threads) thread.Join();
    Console.WriteLine("wrong {0}", wrong);
    return 7;
  }
}
#endif
