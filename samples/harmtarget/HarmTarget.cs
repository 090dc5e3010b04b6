// A process that must not be harmed. Each mode is a kind of work that profilers are known to break. The work comes in units,
// each of which gives the same number each time; a unit that gives another one is counted as bad.
//
//   --mode NAME     what to do, see `Modes`
//   --seconds N     ends by itself after so long (default 120), so that nothing stays behind
//
// After `ready` it answers each line of its input: `units` with how many are done, `stop` (or the end of the input) with
// the truth as one line of JSON, and leaves with exit code 0.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Runtime.Loader;
using System.Threading;
using System.Threading.Tasks;

namespace Clrscope.Samples
{
    /// What an assembly that is loaded into a context of its own is used for.
    public sealed class Guest
    {
        public int Answer(int value)
        {
            return value * 3 + 1;
        }
    }

    /// Dies on the finalizer's thread, and counts that.
    sealed class Mortal
    {
        public static long Dead;
        readonly byte[] body = new byte[200];

        ~Mortal()
        {
            Interlocked.Add(ref Dead, body.Length > 0 ? 1 : 0);
        }
    }

    public sealed class Failure : Exception
    {
        public readonly int Number;

        public Failure(int number)
        {
            Number = number;
        }
    }

    public static class HarmTarget
    {
        delegate int Callback(int value);

        [DllImport("harmnative")]
        static extern int harm_add(int a, int b);

        [DllImport("harmnative")]
        static extern int harm_call(Callback call, int value);

        [DllImport("harmnative")]
        static extern int harm_on_threads(Callback call, int count, int heapStack);

        [DllImport("harmnative")]
        static extern int harm_fork(int code);

        [DllImport("harmnative")]
        static extern int harm_vfork_exec();

        /// Number of threads that do units, and the unit. The number is the seed of a unit; what it gives must be `Of(unit)`
        /// for each thread each time.
        sealed class Mode
        {
            public int Threads;
            public Func<long> Unit;
        }

        static readonly Dictionary<string, Mode> Modes = new Dictionary<string, Mode>
        {
            { "compute", new Mode { Threads = 2, Unit = Compute } },
            { "nre", new Mode { Threads = 2, Unit = NullReferences } },
            { "exceptions", new Mode { Threads = 3, Unit = Exceptions } },
            { "collectible", new Mode { Threads = 1, Unit = CollectibleExceptions } },
            { "contexts", new Mode { Threads = 1, Unit = Contexts } },
            { "emit", new Mode { Threads = 1, Unit = Emit } },
            { "dynamicmethods", new Mode { Threads = 2, Unit = DynamicMethods } },
            { "churn20", new Mode { Threads = 1, Unit = ThreadsComeAndGoSlowly } },
            { "churn1000", new Mode { Threads = 2, Unit = ThreadsComeAndGo } },
            { "threads1000", new Mode { Threads = 1, Unit = Crowd } },
            { "smallstacks", new Mode { Threads = 1, Unit = SmallStacks } },
            { "recursion", new Mode { Threads = 2, Unit = Recursion } },
            { "async", new Mode { Threads = 1, Unit = AsyncStorm } },
            { "pinvoke", new Mode { Threads = 2, Unit = Natives } },
            { "foreignthreads", new Mode { Threads = 1, Unit = () => Foreign(0) } },
            { "foreignstacks", new Mode { Threads = 1, Unit = () => Foreign(1) } },
            { "forkexec", new Mode { Threads = 1, Unit = Children } },
            { "gcstress", new Mode { Threads = 3, Unit = Garbage } },
            { "locks", new Mode { Threads = 4, Unit = Locks } },
            { "files", new Mode { Threads = 2, Unit = Files } },
        };

        static long units, bad, expected, first;
        static int named;
        static volatile bool over;
        static string firstError = "";

        static int Main(string[] args)
        {
            string name = Text(args, "--mode", "compute");
            int seconds = int.Parse(Text(args, "--seconds", "120"), CultureInfo.InvariantCulture);
            Mode mode = Modes[name];
            expected = mode.Unit();
            var threads = Enumerable.Range(0, mode.Threads).Select(_ => new Thread(() => Work(mode.Unit))).ToArray();
            foreach (Thread thread in threads)
            {
                thread.IsBackground = true;
                thread.Start();
            }
            using (new Timer(_ => Environment.Exit(99), null, seconds * 1000, Timeout.Infinite))
            {
                Console.WriteLine("ready");
                for (string line = Console.ReadLine(); line == "units"; line = Console.ReadLine())
                {
                    Console.WriteLine("units " + Interlocked.Read(ref units));
                }
                over = true;
                bool all = threads.All(thread => thread.Join(TimeSpan.FromSeconds(20)));
                Console.WriteLine(string.Format(
                    CultureInfo.InvariantCulture,
                    "{{\"sample\":\"harmtarget\",\"mode\":\"{0}\",\"unit\":{1},\"units\":{2},\"bad\":{3},\"ended\":{4},\"error\":\"{5}\"}}",
                    name, expected, units, bad, all ? "true" : "false", firstError.Replace('\\', '/').Replace('"', '\'')));
            }
            return 0;
        }

        static void Work(Func<long> unit)
        {
            while (!over)
            {
                long found;
                try
                {
                    found = unit();
                }
                catch (Exception error)
                {
                    found = -1;
                    if (Interlocked.Exchange(ref first, 1) == 0)
                    {
                        firstError = (error.GetType() + ": " + error.Message).Split('\n')[0];
                    }
                }
                if (found != expected)
                {
                    Interlocked.Increment(ref bad);
                }
                Interlocked.Increment(ref units);
            }
        }

        static long Compute()
        {
            long sum = 0;
            for (int i = 0; i < 200000; i++)
            {
                sum = sum * 31 + Mix(i);
            }
            return sum;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Mix(int value)
        {
            return (value ^ (value >> 3)) * 17;
        }

        static long NullReferences()
        {
            long sum = 0;
            for (int i = 0; i < 100; i++)
            {
                try
                {
                    sum += Length(i % 4 == 0 ? "four" : null);
                }
                catch (NullReferenceException)
                {
                    sum += 1000;
                }
            }
            return sum;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Length(string text)
        {
            return text.Length;
        }

        static long Exceptions()
        {
            long sum = 0;
            for (int i = 0; i < 50; i++)
            {
                try
                {
                    Deep(i % 10, i);
                }
                catch (Failure failure) when (failure.Number % 2 == 0)
                {
                    sum += failure.Number;
                }
                catch (Failure failure)
                {
                    sum += failure.Number * 7;
                }
            }
            return sum;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Deep(int depth, int number)
        {
            try
            {
                if (depth == 0)
                {
                    throw new Failure(number);
                }
                Deep(depth - 1, number);
            }
            finally
            {
                Mix(number);
            }
        }

        /// Types of assemblies that may be collected, each thrown once.
        static long CollectibleExceptions()
        {
            long sum = 0;
            for (int i = 0; i < 4; i++)
            {
                try
                {
                    ThrowNew();
                }
                catch (Exception error)
                {
                    sum += error.GetType().Name.StartsWith("Thrown", StringComparison.Ordinal) ? 1 : 100;
                }
            }
            GC.Collect();
            GC.WaitForPendingFinalizers();
            return sum;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void ThrowNew()
        {
            int number = Interlocked.Increment(ref named);
            var assembly = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("Thrown" + number), AssemblyBuilderAccess.RunAndCollect);
            TypeBuilder type = assembly.DefineDynamicModule("m").DefineType("Thrown" + number, TypeAttributes.Public, typeof(Exception));
            throw (Exception)Activator.CreateInstance(type.CreateTypeInfo().AsType());
        }

        static byte[] own;

        static long Contexts()
        {
            own = own ?? File.ReadAllBytes(typeof(HarmTarget).Assembly.Location);
            long sum = 0;
            for (int i = 0; i < 3; i++)
            {
                sum += Visit(i);
            }
            GC.Collect();
            GC.WaitForPendingFinalizers();
            return sum;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Visit(int value)
        {
            var context = new AssemblyLoadContext("visit", true);
            Type type = context.LoadFromStream(new MemoryStream(own)).GetType("Clrscope.Samples.Guest");
            int answer = (int)type.GetMethod("Answer").Invoke(Activator.CreateInstance(type), new object[] { value });
            context.Unload();
            return answer;
        }

        static long Emit()
        {
            long sum = 0;
            for (int i = 0; i < 4; i++)
            {
                int number = Interlocked.Increment(ref named);
                var assembly = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("Made" + number), AssemblyBuilderAccess.RunAndCollect);
                TypeBuilder type = assembly.DefineDynamicModule("m").DefineType("Made" + number, TypeAttributes.Public);
                MethodBuilder method = type.DefineMethod("Times", MethodAttributes.Public | MethodAttributes.Static, typeof(int), new[] { typeof(int) });
                Multiply(method.GetILGenerator(), i + 2);
                sum += (int)type.CreateTypeInfo().AsType().GetMethod("Times").Invoke(null, new object[] { 21 });
                if (number % 256 == 0)
                {
                    // Otherwise .NET Core 3.1 collects none of them within half a minute, and their mappings pile up.
                    GC.Collect();
                }
            }
            return sum;
        }

        static long DynamicMethods()
        {
            long sum = 0;
            for (int i = 0; i < 10; i++)
            {
                var method = new DynamicMethod("times" + i, typeof(int), new[] { typeof(int) }, typeof(HarmTarget).Module);
                Multiply(method.GetILGenerator(), i);
                var times = (Func<int, int>)method.CreateDelegate(typeof(Func<int, int>));
                for (int j = 0; j < 50; j++)
                {
                    sum += times(j);
                }
            }
            return sum;
        }

        static void Multiply(ILGenerator code, int by)
        {
            code.Emit(OpCodes.Ldarg_0);
            code.Emit(OpCodes.Ldc_I4, by);
            code.Emit(OpCodes.Mul);
            code.Emit(OpCodes.Ret);
        }

        static long ThreadsComeAndGoSlowly()
        {
            long sum = OnThread(0, () => Mix(4) + Spin(20000));
            Thread.Sleep(48);
            if (Interlocked.Increment(ref named) % 64 == 0)
            {
                // Threads that have ended keep some 10 KB each until their objects are collected, and nothing else brings that about.
                GC.Collect();
            }
            return sum;
        }

        static long ThreadsComeAndGo()
        {
            return OnThread(0, () => Mix(4) + Spin(200));
        }

        static long Spin(int times)
        {
            long sum = 0;
            for (int i = 0; i < times; i++)
            {
                sum += Mix(i);
            }
            return sum;
        }

        static long OnThread(int stack, Func<long> body)
        {
            long result = 0;
            var thread = new Thread(() => result = body(), stack);
            thread.Start();
            thread.Join();
            return result;
        }

        static Thread[] crowd;
        static readonly SemaphoreSlim asked = new SemaphoreSlim(0), answered = new SemaphoreSlim(0);
        static long answers;

        /// A thousand threads that wait; fifty of them do a little in each unit.
        static long Crowd()
        {
            if (crowd == null)
            {
                crowd = Enumerable.Range(0, 1000).Select(_ => new Thread(Answer, 128 * 1024) { IsBackground = true }).ToArray();
                Array.ForEach(crowd, thread => thread.Start());
            }
            Interlocked.Exchange(ref answers, 0);
            asked.Release(50);
            for (int i = 0; i < 50; i++)
            {
                answered.Wait();
            }
            Thread.Sleep(2);
            return Interlocked.Read(ref answers);
        }

        static void Answer()
        {
            for (;;)
            {
                asked.Wait();
                Interlocked.Add(ref answers, Spin(100));
                answered.Release();
            }
        }

        static long SmallStacks()
        {
            long sum = 0;
            // All twenty live at once, always: how many stacks glibc keeps for later does not depend on how fast they come and go.
            using (var everyone = new ManualResetEvent(false))
            {
                var threads = Enumerable.Range(0, 20).Select(number => new Thread(() => { Interlocked.Add(ref sum, Fall(60, number)); everyone.WaitOne(); }, 64 * 1024)).ToArray();
                Array.ForEach(threads, thread => thread.Start());
                everyone.Set();
                Array.ForEach(threads, thread => thread.Join());
            }
            Thread.Sleep(2);
            return sum;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Fall(int depth, int number)
        {
            return depth == 0 ? number : Fall(depth - 1, number) + 1;
        }

        static long Recursion()
        {
            return OnThread(512 * 1024, () => ToTheEdge(0) + Fall(2000, 5));
        }

        /// Goes down until the runtime says that there is no more room, and gives 1 for that.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static long ToTheEdge(int depth)
        {
            try
            {
                RuntimeHelpers.EnsureSufficientExecutionStack();
            }
            catch (InsufficientExecutionStackException)
            {
                return 1;
            }
            return ToTheEdge(depth + 1);
        }

        static long AsyncStorm()
        {
            return Task.WhenAll(Enumerable.Range(0, 200).Select(Outer)).Result.Sum();
        }

        static async Task<long> Outer(int number)
        {
            await Task.Yield();
            long inner = await Inner(number).ConfigureAwait(false);
            return inner + 1;
        }

        static async Task<long> Inner(int number)
        {
            if (number % 10 == 0)
            {
                await Task.Delay(1).ConfigureAwait(false);
            }
            await Task.Yield();
            return Mix(number);
        }

        static readonly Callback twice = Twice;

        static int Twice(int value)
        {
            return value + value;
        }

        static long Natives()
        {
            long sum = 0;
            for (int i = 0; i < 2000; i++)
            {
                sum += harm_add(i, 1) + harm_call(twice, i);
            }
            return sum;
        }

        static int CatchInside(int value)
        {
            try
            {
                return value % 5 == 0 ? Length(null) : value;
            }
            catch (NullReferenceException)
            {
                return 100;
            }
        }

        static readonly Callback catching = CatchInside;

        static long Foreign(int heapStacks)
        {
            return harm_on_threads(catching, 8, heapStacks);
        }

        static long Children()
        {
            long sum = harm_fork(7) * 100 + harm_vfork_exec() * 10;
            using (Process child = Process.Start(new ProcessStartInfo("/bin/true") { UseShellExecute = false }))
            {
                child.WaitForExit();
                return sum + child.ExitCode;
            }
        }

        static long Garbage()
        {
            long sum = 0;
            var kept = new object[64];
            for (int i = 0; i < 2000; i++)
            {
                var bytes = new byte[100 + i % 1000];
                bytes[i % 100] = (byte)i;
                kept[i & 63] = i % 8 == 0 ? (object)new Mortal() : bytes;
                if (i % 50 == 0)
                {
                    GCHandle pin = GCHandle.Alloc(bytes, GCHandleType.Pinned);
                    sum += Marshal.ReadByte(pin.AddrOfPinnedObject(), i % 100);
                    if (i % 500 == 0)
                    {
                        GC.Collect(i % 1000 == 0 ? 1 : 0);
                    }
                    pin.Free();
                }
                sum += bytes[i % 100];
            }
            GC.KeepAlive(kept);
            return sum;
        }

        static readonly object one = new object(), other = new object();
        static long guarded;

        static long Locks()
        {
            for (int i = 0; i < 20; i++)
            {
                lock (one)
                {
                    Spin(500);
                    lock (other)
                    {
                        guarded++;
                    }
                }
            }
            return Spin(100);
        }

        /// Opens files now and then, as anything does that reads its configuration.
        static long Files()
        {
            long sum = 0;
            for (int i = 0; i < 10; i++)
            {
                using (var file = new FileStream("/proc/self/cmdline", FileMode.Open, FileAccess.Read))
                {
                    sum += file.ReadByte() >= 0 ? 1 : 0;
                }
            }
            Thread.Sleep(1);
            return sum;
        }

        static string Text(string[] args, string name, string otherwise)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? args[at + 1] : otherwise;
        }
    }
}
