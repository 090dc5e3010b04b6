// Takes profiles of threads with known stacks. With the symbol FIRST or SECOND this is a library: both have the same tokens and
// different names.
using System;
using System.Runtime.CompilerServices;
#if FIRST || SECOND
#if FIRST
namespace First {
  public static class Alpha {
#else
namespace Second {
  public static class Beta {
#endif
    [MethodImpl(MethodImplOptions.NoInlining)] public static int Call(Action action) { action(); return 1; }
    [MethodImpl(MethodImplOptions.NoInlining)] public static int Call(Action action, int more) { action(); return 1 + more; }
    public static class Inner {
      [MethodImpl(MethodImplOptions.NoInlining)] public static int CallNested(Action action) { action(); return 2; }
    }
  }
  public class Generic<T> {
    [MethodImpl(MethodImplOptions.NoInlining)] public int CallGeneric<U>(Action action, T t, U u) { action(); return 3; }
  }
}
#else
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Runtime.Loader;
using System.Threading;
namespace Test {
  static class Native {
    const string Library = "NewRelicProfiler";
    [DllImport(Library)] public static extern int RequestProfile(out IntPtr data, out int count);
    [DllImport(Library, EntryPoint = "RequestProfile")] public static extern int RequestProfileAt(IntPtr data, IntPtr count);
    [DllImport(Library)] public static extern void ReleaseProfile();
    [DllImport(Library)] public static extern int RequestFunctionNames(UIntPtr[] functions, int count, out IntPtr names);
    [DllImport(Library, EntryPoint = "RequestFunctionNames")] public static extern int RequestFunctionNamesAt(UIntPtr[] functions, int count, IntPtr names);
    [DllImport(Library)] public static extern void ShutdownThreadProfiler();
    [DllImport(Library)] public static extern UIntPtr GetCurrentExecutionEngineThreadId();
  }
  // As the managed agent has them.
  struct ThreadProfile { public UIntPtr Thread; public int Result; public int Count; public IntPtr Functions; }
  struct FunctionName { public UIntPtr Function; public IntPtr Class; public IntPtr Method; }
  // Copied, so that it can be read when the profile is released.
  class Stack { public ulong Thread; public int Result; public UIntPtr[] Functions; }
  static class Profile {
    public const int Failed = unchecked((int)0x80004005), Aborted = unchecked((int)0x80004004);
    // Takes one and releases it.
    public static List<Stack> Take() {
      IntPtr data; int count;
      int result = Native.RequestProfile(out data, out count);
      if (result != 0) throw new Exception(string.Format("RequestProfile: 0x{0:x8}", result));
      var stacks = Copy(data, count);
      Native.ReleaseProfile();
      return stacks;
    }
    public static List<Stack> Copy(IntPtr data, int count) {
      var stacks = new List<Stack>();
      for (int i = 0; i < count; i++) {
        var thread = Marshal.PtrToStructure<ThreadProfile>(data + i * Marshal.SizeOf<ThreadProfile>());
        var functions = new UIntPtr[thread.Count];
        for (int k = 0; k < thread.Count; k++) functions[k] = (UIntPtr)(ulong)(long)Marshal.ReadIntPtr(thread.Functions, k * IntPtr.Size);
        stacks.Add(new Stack { Thread = (ulong)thread.Thread, Result = thread.Result, Functions = functions });
      }
      return stacks;
    }
    // The names of functions, type and method with a dot between.
    public static string[] Names(UIntPtr[] functions) {
      if (functions.Length == 0) return new string[0];
      IntPtr names;
      int result = Native.RequestFunctionNames(functions, functions.Length, out names);
      if (result != 0) throw new Exception(string.Format("RequestFunctionNames: 0x{0:x8}", result));
      return functions.Select((function, i) => {
        var name = Marshal.PtrToStructure<FunctionName>(names + i * Marshal.SizeOf<FunctionName>());
        if (name.Function != function) throw new Exception("names of another function");
        return Marshal.PtrToStringUni(name.Class) + "." + Marshal.PtrToStringUni(name.Method);
      }).ToArray();
    }
  }
  // A thread that stands at a known place, or computes there.
  class Known {
    public ulong Id; public Thread Thread; Action enter; Action body; ManualResetEventSlim there = new ManualResetEventSlim();
    public Known(Action<Action> enter, Action body) {
      this.enter = () => enter(Leaf); this.body = body;
      Thread = new Thread(Root); Thread.IsBackground = true; Thread.Start(); there.Wait();
    }
    [MethodImpl(MethodImplOptions.NoInlining)] void Root() { Id = (ulong)Native.GetCurrentExecutionEngineThreadId(); enter(); }
    [MethodImpl(MethodImplOptions.NoInlining)] void Leaf() { there.Set(); body(); }
  }
  static class Program {
    static volatile bool stop;
    static readonly ManualResetEventSlim release = new ManualResetEventSlim();
    [MethodImpl(MethodImplOptions.NoInlining)] static void Stand() { release.Wait(); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void Compute() { while (!stop) Busy.Checksum(1000); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void Second1(Action leaf) { Second.Beta.Call(leaf); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void Second2(Action leaf) { Second.Beta.Call(leaf, 1); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InFirst(Action leaf) { First.Alpha.Call(() => Second1(leaf)); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InOverloads(Action leaf) { First.Alpha.Call(() => Second2(leaf), 1); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InNested(Action leaf) { First.Alpha.Inner.CallNested(() => Second.Beta.Inner.CallNested(leaf)); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InGeneric(Action leaf) { new First.Generic<int>().CallGeneric(() => new Second.Generic<string>().CallGeneric(leaf, "", 0L), 0, ""); }
    [MethodImpl(MethodImplOptions.NoInlining)] static int Deep(int n, Action leaf) { if (n == 0) { leaf(); return 0; } return Deep(n - 1, leaf) + 1; }

    static void Say(string format, params object[] values) { Console.WriteLine(format, values); }
    static string Hex(int result) { return "0x" + result.ToString("x8"); }

    static void KnownStacks() {
      Say("same tokens: {0}", typeof(First.Alpha).MetadataToken == typeof(Second.Beta).MetadataToken);
      var threads = new Dictionary<string, Known> {
        { "first", new Known(InFirst, Stand) }, { "overloads", new Known(InOverloads, Compute) },
        { "nested", new Known(InNested, Stand) }, { "generic", new Known(InGeneric, Compute) },
        { "deep", new Known(leaf => Deep(3000, leaf), Stand) },
      };
      IntPtr data, other; int count, otherCount;
      Say("profile: {0}", Hex(Native.RequestProfile(out data, out count)));
      other = (IntPtr)1; otherCount = 2;
      Say("not released: {0} {1}", Hex(Native.RequestProfile(out other, out otherCount)), other == data ? "given" : "not given");
      var stacks = Profile.Copy(data, count);
      Say("threads differ: {0}", stacks.Select(stack => stack.Thread).Distinct().Count() == count);
      foreach (var pair in threads.Where(pair => pair.Key != "deep")) {
        var stack = stacks.Single(one => one.Thread == pair.Value.Id);
        var own = Profile.Names(stack.Functions).Where(name => new[] { "Alpha.", "Beta.", "Inner.", "Generic`1.", "Known." }.Any(part => name.Contains(part)));
        Say("{0}: {1} {2}", pair.Key, stack.Result, string.Join(" ", own));
      }
      var deep = stacks.Single(one => one.Thread == threads["deep"].Id);
      var names = Profile.Names(deep.Functions);
      Say("deep: {0} {1} frames, {2} at least, root is there: {3}", deep.Result, deep.Functions.Length, names.Count(name => name == "Test.Program.Deep") / 100 * 100, names.Contains("Test.Known.Root"));
      // Functions are told apart, though their names are the same.
      var of = new Func<string, string, UIntPtr>((thread, name) => {
        var functions = stacks.Single(one => one.Thread == threads[thread].Id).Functions;
        return functions[Array.IndexOf(Profile.Names(functions), name)];
      });
      Say("overloads differ: {0}", of("first", "First.Alpha.Call") != of("overloads", "First.Alpha.Call"));
      // The thread that asks is there itself, above native code.
      var mine = stacks.Single(one => one.Thread == (ulong)Native.GetCurrentExecutionEngineThreadId());
      Say("own: {0} {1}", mine.Functions.Contains(UIntPtr.Zero), Profile.Names(mine.Functions).Contains("Test.Program.Main"));
      Say("unknown: {0}", string.Join(" ", Profile.Names(new[] { UIntPtr.Zero, (UIntPtr)12345, (UIntPtr)ulong.MaxValue })));
      Native.ReleaseProfile();
      Native.ReleaseProfile();
      Say("names outlive the profile: {0}", Profile.Names(mine.Functions).Contains("Test.Program.Main"));
      Say("again: {0}", Profile.Take().Any(one => one.Thread == threads["first"].Id));
      Native.ShutdownThreadProfiler();
      Say("shut down: {0}", string.Join(" ", Profile.Names(new[] { mine.Functions.Last() })));
      Native.ShutdownThreadProfiler();
      Say("and again: {0}", Profile.Take().Any(one => one.Thread == threads["first"].Id));
      Say("names are back: {0}", Profile.Names(mine.Functions).Contains("Test.Program.Main"));
      stop = true;
      release.Set();
      foreach (var known in threads.Values) known.Thread.Join();
      stop = false;
      Say("ended: {0}", !Profile.Take().Any(one => threads.Values.Any(known => known.Id == one.Thread)));
    }

    static void Arguments() {
      IntPtr some = Marshal.AllocHGlobal(16), names;
      var ids = new[] { (UIntPtr)8 };
      Say("null data: {0}", Hex(Native.RequestProfileAt(IntPtr.Zero, some)));
      Say("null count: {0}", Hex(Native.RequestProfileAt(some, IntPtr.Zero)));
      Say("no functions: {0}", Hex(Native.RequestFunctionNames(ids, 0, out names)));
      Say("fewer than none: {0}", Hex(Native.RequestFunctionNames(ids, -1, out names)));
      Say("null functions: {0}", Hex(Native.RequestFunctionNames(null, 1, out names)));
      Say("null names: {0}", Hex(Native.RequestFunctionNamesAt(ids, 1, IntPtr.Zero)));
      ulong own = (ulong)Native.GetCurrentExecutionEngineThreadId(), other = 0;
      var thread = new Thread(() => other = (ulong)Native.GetCurrentExecutionEngineThreadId()); thread.Start(); thread.Join();
      Say("thread ids: {0}", own != 0 && other != 0 && own != other && own == (ulong)Native.GetCurrentExecutionEngineThreadId());
    }

    // One thread shuts down while the other one requests profiles.
    static void Aborts() {
      var results = new Dictionary<int, int>(); bool ended = false; int wrong = 0;
      var asking = new Thread(() => {
        while (!Volatile.Read(ref ended)) {
          IntPtr data; int count;
          int result = Native.RequestProfile(out data, out count);
          results[result] = results.TryGetValue(result, out int before) ? before + 1 : 1;
          if ((result == 0) != (data != IntPtr.Zero && count > 0)) wrong++;
          Native.ReleaseProfile();
        }
      });
      asking.Start();
      for (int i = 0; i < 200; i++) { Native.ShutdownThreadProfiler(); if (i % 10 == 0) Thread.Sleep(1); }
      Thread.Sleep(50);
      Volatile.Write(ref ended, true); asking.Join();
      Say("aborts: {0} {1} {2}", results.ContainsKey(0), results.Keys.All(result => result == 0 || result == Profile.Aborted), wrong);
      Say("after aborts: {0}", Profile.Take().Count > 0);
    }

    // Without a profiler.
    static void Refused() {
      IntPtr data; int count;
      int profile = Native.RequestProfile(out data, out count), names = Native.RequestFunctionNames(new[] { (UIntPtr)8 }, 1, out data);
      Native.ReleaseProfile();
      Native.ShutdownThreadProfiler();
      Say("{0} {1} {2}", Hex(profile), Hex(names), Native.GetCurrentExecutionEngineThreadId());
    }

    public static int Main(string[] arguments) {
      NativeLibrary.SetDllImportResolver(typeof(Program).Assembly, (name, assembly, path) =>
        name == "NewRelicProfiler" ? NativeLibrary.Load(Environment.GetEnvironmentVariable("CORECLR_PROFILER_PATH")) : IntPtr.Zero);
      switch (arguments[0]) {
        case "known": Arguments(); KnownStacks(); Aborts(); break;
        case "busy": Busy.Run(int.Parse(arguments[1]), int.Parse(arguments[2])); break;
        case "refused": Refused(); break;
      }
      return 0;
    }
  }
  // A program that computes, throws, collects, starts threads, and loads and unloads assemblies, while it is profiled.
  static class Busy {
    static volatile bool stop;
    static long computed, wrong, started, unloaded;
    [MethodImpl(MethodImplOptions.NoInlining)] public static uint Checksum(int n) { uint sum = 1; for (int i = 0; i < n; i++) sum = sum * 31 + (uint)i; return sum; }
    [MethodImpl(MethodImplOptions.NoInlining)] static uint Once(int n) {
      var parts = new List<string>();
      for (int i = 0; i < 20; i++) parts.Add(i.ToString());
      try { if (n % 7 == 0) throw new InvalidOperationException(); } catch (InvalidOperationException) { parts.Add("thrown"); }
      return Checksum(n) + (uint)parts.Count;
    }
    static void Check(int n) {
      uint expected = 1; for (int i = 0; i < n; i++) expected = expected * 31 + (uint)i;
      expected += n % 7 == 0 ? 21u : 20u;
      if (Once(n) != expected) Interlocked.Increment(ref wrong);
      Interlocked.Increment(ref computed);
    }
    static void Slot(object seed) {
      int n = (int)seed;
      while (!stop) {
        n = (n * 17 + 3) % 50000;
        Check(n);
        int copy = n;
        var child = new Thread(() => Check(copy), 256 * 1024); child.Start(); Interlocked.Increment(ref started);
        Check(n + 1);
        child.Join();
      }
    }
    [MethodImpl(MethodImplOptions.NoInlining)] static void LoadAndUnload() {
      var context = new AssemblyLoadContext("passing", true);
      var assembly = context.LoadFromAssemblyPath(Path.Combine(AppContext.BaseDirectory, "Second.dll"));
      var call = assembly.GetType("Second.Beta").GetMethod("Call", new[] { typeof(Action) });
      if ((int)call.Invoke(null, new object[] { new Action(() => { for (int i = 0; i < 20; i++) Check(100000 + i); }) }) != 1) Interlocked.Increment(ref wrong);
      context.Unload();
    }
    static void Unloader() {
      while (!stop) { LoadAndUnload(); Interlocked.Increment(ref unloaded); if (unloaded % 4 == 0) { GC.Collect(); GC.WaitForPendingFinalizers(); } }
    }
    public static void Run(int profiles, int slots) {
      var threads = Enumerable.Range(0, slots).Select(i => new Thread(Slot)).ToList();
      for (int i = 0; i < slots; i++) threads[i].Start(i * 97);
      var unloader = new Thread(Unloader); unloader.Start(); threads.Add(unloader);
      int most = 0, stuck = 0, nameless = 0; long named = 0;
      // The runtime does not walk threads that are unwinding, so a profile may lack threads; and a passing assembly is seen by chance.
      var seen = new HashSet<string>();
      for (int i = 0; i < profiles || (i < 50 * profiles && !(most >= slots && seen.Contains("Second.Beta.Call") && unloaded > 0)); i++) {
        long before = Interlocked.Read(ref computed);
        var stacks = Profile.Take();
        most = Math.Max(most, stacks.Count);
        foreach (var stack in stacks) {
          var names = Profile.Names(stack.Functions);
          for (int k = 0; k < names.Length; k++) {
            named++;
            if (stack.Functions[k] != UIntPtr.Zero && names[k] == "UnknownClass.UnknownMethod(error)") nameless++;
            seen.Add(names[k]);
          }
        }
        // The program continues after each.
        for (int wait = 0; Interlocked.Read(ref computed) == before; wait++) { Thread.Sleep(1); if (wait > 20000) { stuck++; break; } }
        if (i % 10 == 9) Native.ShutdownThreadProfiler();
      }
      stop = true;
      foreach (var thread in threads) thread.Join();
      Console.WriteLine("busy: all threads {0}, wrong {1}, stuck {2}, started {3}, unloaded {4}, names {5} {6}, nameless {7}", most >= slots, wrong, stuck, started > 0, unloaded > 0,
        seen.Contains("Test.Busy.Slot"), seen.Contains("Second.Beta.Call"), nameless < named);
    }
  }
}
#endif
