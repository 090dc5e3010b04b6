// Everything that makes stacks hard to walk, all at once or chosen one by one.
//
//   --seconds N   how long to run after `ready` (default 10)
//   --wait        run until the end of standard input instead
//   --modes LIST  which kinds of work, separated by commas (default all): cpu, async, alloc, exceptions, nullref,
//                 dynamic, recursion, churn, pinvoke, delegates, generics, osr
//   --depth N     depth of the recursion (default 150)
//   --threads N   threads per kind of work (default 1)
//   --sigprof     sets a handler of its own for SIGPROF
//   --sandbox MS  so long after `ready`, forbids process_vm_readv to all of its threads by a filter of system calls that
//                 ends the process for it (x86-64), says `sandboxed`, and runs methods that have not run before
//   --duty N      percent of the time that each thread works; it sleeps in between (default 100)
//
// The truth gives for each kind how often it was done.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Clrscope.Samples
{
    public static class Mixed
    {
        sealed class Mode
        {
            public string Name;
            public Func<int, long> Body;
            public long Done;
        }

        sealed class Trouble : Exception
        {
        }

        class Shape
        {
            public virtual long Area(int size) { return size; }
        }

        sealed class Square : Shape
        {
            public override long Area(int size) { return Spin(size) & 1023; }
        }

        struct Pair<A, B>
        {
            public A First;
            public B Second;

            [MethodImpl(MethodImplOptions.NoInlining)]
            public int Hash(int rounds)
            {
                long x = Spin(rounds);
                return First.GetHashCode() ^ Second.GetHashCode() ^ (int)x;
            }
        }

        static volatile bool stopping;
        static int depth;
        static object nothing = null;
        static long sink;

        static int Main(string[] args)
        {
            double seconds = Number(args, "--seconds", 10);
            int threads = (int)Number(args, "--threads", 1);
            int duty = (int)Number(args, "--duty", 100);
            depth = (int)Number(args, "--depth", 150);
            var modes = new List<Mode>
            {
                new Mode { Name = "cpu", Body = Cpu },
                new Mode { Name = "async", Body = n => AsyncOuter(n).Result },
                new Mode { Name = "alloc", Body = Alloc },
                new Mode { Name = "exceptions", Body = Exceptions },
                new Mode { Name = "nullref", Body = NullReference },
                new Mode { Name = "dynamic", Body = Dynamic },
                new Mode { Name = "recursion", Body = n => Recursion(depth, n) },
                new Mode { Name = "churn", Body = Churn },
                new Mode { Name = "pinvoke", Body = PInvoke },
                new Mode { Name = "delegates", Body = Delegates },
                new Mode { Name = "generics", Body = Generics },
                new Mode { Name = "osr", Body = OnStackReplacement },
            };
            if (args.Contains("--sigprof"))
            {
                // What the handler is does not matter: nobody sends the signal.
                SetHandler(27, Marshal.GetFunctionPointerForDelegate(compare));
            }
            string wanted = Text(args, "--modes", "all");
            if (wanted != "all")
            {
                string[] names = wanted.Split(',');
                string unknown = names.FirstOrDefault(name => modes.All(mode => mode.Name != name));
                if (unknown != null)
                {
                    Console.Error.WriteLine("unknown mode: " + unknown);
                    return 2;
                }
                modes = modes.Where(mode => names.Contains(mode.Name)).ToList();
            }
            var workers = new List<Thread>();
            foreach (Mode mode in modes)
            {
                for (int i = 0; i < threads; i++)
                {
                    int seed = i;
                    Mode own = mode;
                    // Deep recursion needs room.
                    var worker = new Thread(() => Work(own, seed, duty), 16 * 1024 * 1024);
                    worker.Name = own.Name + "-" + i;
                    worker.IsBackground = true;
                    worker.Start();
                    workers.Add(worker);
                }
            }
            Thread.Sleep(1000);
            Console.WriteLine("ready");
            if (args.Contains("--sandbox"))
            {
                int wait = (int)Number(args, "--sandbox", 0);
                new Thread(() => Sandbox.Run(wait)) { Name = "sandbox", IsBackground = true }.Start();
            }
            if (args.Contains("--wait"))
            {
                Console.In.ReadToEnd();
            }
            else
            {
                Thread.Sleep(TimeSpan.FromSeconds(seconds));
            }
            stopping = true;
            foreach (Thread worker in workers)
            {
                worker.Join();
            }
            Console.WriteLine("{\"sample\":\"mixed\",\"done\":{"
                + string.Join(",", modes.Select(mode => "\"" + mode.Name + "\":" + mode.Done)) + "}}");
            return 0;
        }

        static void Work(Mode mode, int seed, int duty)
        {
            var clock = System.Diagnostics.Stopwatch.StartNew();
            while (!stopping)
            {
                Interlocked.Add(ref sink, mode.Body(seed));
                Interlocked.Increment(ref mode.Done);
                if (duty < 100 && clock.ElapsedMilliseconds >= 10)
                {
                    Thread.Sleep((int)(clock.ElapsedMilliseconds * (100 - duty) / Math.Max(duty, 1)));
                    clock.Restart();
                }
            }
        }

        /// The leaf of most kinds of work. It has no frame of its own in optimised code.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Spin(int rounds)
        {
            ulong x = (ulong)rounds | 1;
            for (int i = 0; i < rounds; i++)
            {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
            }
            return (long)x;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Cpu(int seed)
        {
            Shape shape = seed % 2 == 0 ? new Square() : new Shape();
            return Middle(2000) + shape.Area(500);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Middle(int rounds)
        {
            // Locals that live across the calls, so that registers are saved in the prolog.
            long a = Spin(rounds), b = Spin(rounds / 2), c = Spin(rounds / 3);
            return a ^ (b + c) * (a - b);
        }

        static async Task<long> AsyncOuter(int seed)
        {
            long sum = 0;
            for (int i = 0; i < 4; i++)
            {
                sum += await AsyncMiddle(seed + i).ConfigureAwait(false);
            }
            return sum;
        }

        static async Task<long> AsyncMiddle(int seed)
        {
            await Task.Yield();
            long x = Spin(2000);
            using (var cancel = new CancellationTokenSource())
            {
                x += await Task.Run(() => Spin(1000 + seed), cancel.Token).ConfigureAwait(false);
            }
            return x;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Alloc(int seed)
        {
            var names = new Dictionary<string, List<int>>();
            for (int i = 0; i < 200; i++)
            {
                string name = "name " + (i % 20 + seed);
                List<int> list;
                if (!names.TryGetValue(name, out list))
                {
                    names.Add(name, list = new List<int>());
                }
                list.Add(i);
            }
            return names.Values.Sum(list => list.Count) + new byte[100000].Length;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Exceptions(int seed)
        {
            try
            {
                return ThrowAt(8);
            }
            catch (Trouble) when (Spin(200) != 0)
            {
                return Spin(500);
            }
            finally
            {
                sink += Spin(200);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long ThrowAt(int left)
        {
            try
            {
                if (left == 0)
                {
                    throw new Trouble();
                }
                return ThrowAt(left - 1) + 1;
            }
            finally
            {
                sink++;
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long NullReference(int seed)
        {
            try
            {
                return nothing.GetHashCode();
            }
            catch (NullReferenceException)
            {
                return Spin(300);
            }
        }

        /// Makes a method at run time, and calls it so often that it is worth looking at.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Dynamic(int seed)
        {
            var method = new DynamicMethod("Generated" + seed, typeof(long), new[] { typeof(int) }, typeof(Mixed).Module, true);
            ILGenerator il = method.GetILGenerator();
            LocalBuilder sum = il.DeclareLocal(typeof(long)), i = il.DeclareLocal(typeof(int));
            Label head = il.DefineLabel(), test = il.DefineLabel();
            il.Emit(OpCodes.Br, test);
            il.MarkLabel(head);
            il.Emit(OpCodes.Ldloc, sum);
            il.Emit(OpCodes.Ldc_I4, 100);
            il.Emit(OpCodes.Call, new Func<int, long>(Spin).Method);
            il.Emit(OpCodes.Xor);
            il.Emit(OpCodes.Stloc, sum);
            il.Emit(OpCodes.Ldloc, i);
            il.Emit(OpCodes.Ldc_I4_1);
            il.Emit(OpCodes.Add);
            il.Emit(OpCodes.Stloc, i);
            il.MarkLabel(test);
            il.Emit(OpCodes.Ldloc, i);
            il.Emit(OpCodes.Ldarg_0);
            il.Emit(OpCodes.Blt, head);
            il.Emit(OpCodes.Ldloc, sum);
            il.Emit(OpCodes.Ret);
            var generated = (Func<int, long>)method.CreateDelegate(typeof(Func<int, long>));
            return generated(2000);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Recursion(int left, int seed)
        {
            if (left == 0)
            {
                return Spin(2000);
            }
            return left % 2 == 0 ? Recursion(left - 1, seed) + left : RecursionOdd(left - 1, seed, left * 0.5);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long RecursionOdd(int left, int seed, double weight)
        {
            long below = Recursion(left, seed);
            return below + (long)(weight * seed);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Churn(int seed)
        {
            long result = 0;
            var short1 = new Thread(() => result = Spin(20000)) { Name = "short-lived" };
            short1.Start();
            short1.Join();
            return result;
        }

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        delegate int Compare(IntPtr left, IntPtr right);

        [DllImport("libc", EntryPoint = "qsort", CallingConvention = CallingConvention.Cdecl)]
        static extern void Sort([In, Out] long[] items, UIntPtr count, UIntPtr size, Compare compare);

        [DllImport("libc", EntryPoint = "getppid")]
        static extern int Parent();

        [DllImport("libc", EntryPoint = "signal")]
        static extern IntPtr SetHandler(int signal, IntPtr handler);

        static readonly Compare compare = CompareLongs;

        static int CompareLongs(IntPtr left, IntPtr right)
        {
            return Marshal.ReadInt64(left).CompareTo(Marshal.ReadInt64(right));
        }

        /// Native code that calls back into managed code.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static long PInvoke(int seed)
        {
            var items = new long[500];
            for (int i = 0; i < items.Length; i++)
            {
                items[i] = (i * 7919 + seed) % 1009;
            }
            Sort(items, (UIntPtr)items.Length, (UIntPtr)8, compare);
            long sum = items[0];
            for (int i = 0; i < 50; i++)
            {
                sum += Parent();
            }
            return sum;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Delegates(int seed)
        {
            Func<int, long> chain = n => Spin(n);
            chain += n => Spin(n / 2);
            chain += new Square().Area;
            return Enumerable.Range(seed + 1, 20).Select(n => chain(n * 20)).Where(x => x != 0).Aggregate(0L, (a, b) => a ^ b);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Generics(int seed)
        {
            return new Pair<string, int> { First = "a", Second = seed }.Hash(1000)
                + new Pair<int, Pair<string, object>> { First = seed, Second = new Pair<string, object> { First = "b", Second = "c" } }.Hash(1000)
                + Largest(new[] { "one", "two", "three" }).Length
                + Largest(new[] { 1, 2, 3 });
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static T Largest<T>(T[] items) where T : IComparable<T>
        {
            sink += Spin(500);
            T largest = items[0];
            foreach (T item in items)
            {
                if (item.CompareTo(largest) > 0)
                {
                    largest = item;
                }
            }
            return largest;
        }

        /// A loop so long that the runtime replaces the method while it runs. A new instance of the method each time would
        /// need new code; so every call is long instead.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static long OnStackReplacement(int seed)
        {
            long sum = seed;
            for (int i = 0; i < 300000; i++)
            {
                sum = sum * 31 + i;
                if (i % 10000 == 0)
                {
                    sum ^= Spin(50);
                }
            }
            return sum;
        }

        static string Text(string[] args, string name, string fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? args[at + 1] : fallback;
        }

        static double Number(string[] args, string name, double fallback)
        {
            return double.Parse(Text(args, name, fallback.ToString(CultureInfo.InvariantCulture)), CultureInfo.InvariantCulture);
        }
    }

    static class Sandbox
    {
        [StructLayout(LayoutKind.Sequential)]
        struct Instruction
        {
            public ushort Code;
            public byte IfTrue, IfFalse;
            public uint K;
        }

        [StructLayout(LayoutKind.Sequential)]
        struct Program
        {
            public ushort Length;
            public IntPtr Instructions;
        }

        [DllImport("libc", EntryPoint = "prctl", SetLastError = true)]
        static extern int Control(int what, ulong a, ulong b, ulong c, ulong d);

        [DllImport("libc", EntryPoint = "syscall", SetLastError = true)]
        static extern long Call(long number, ulong a, ulong b, ref Program program);

        static long sum;

        public static void Run(int milliseconds)
        {
            Thread.Sleep(milliseconds);
            const ushort Load = 0x20, JumpIfEqual = 0x15, Return = 0x06;
            const uint KillProcess = 0x80000000, Allow = 0x7fff0000, ProcessVmReadv = 310;
            var code = new[]
            {
                new Instruction { Code = Load, K = 0 },
                new Instruction { Code = JumpIfEqual, IfFalse = 1, K = ProcessVmReadv },
                new Instruction { Code = Return, K = KillProcess },
                new Instruction { Code = Return, K = Allow },
            };
            GCHandle pinned = GCHandle.Alloc(code, GCHandleType.Pinned);
            var program = new Program { Length = (ushort)code.Length, Instructions = pinned.AddrOfPinnedObject() };
            // PR_SET_NO_NEW_PRIVS, then seccomp(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC).
            bool done = Control(38, 1, 0, 0, 0) == 0 && Call(317, 1, 1, ref program) == 0;
            pinned.Free();
            Console.WriteLine(done ? "sandboxed" : "no filter: " + Marshal.GetLastWin32Error());
            while (true)
            {
                sum += NeverBefore(1000) + NorThis(1000);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long NeverBefore(int rounds)
        {
            long x = rounds;
            for (int i = 0; i < rounds; i++)
            {
                x = x * 6364136223846793005 + 1442695040888963407;
            }
            return x;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long NorThis(int rounds)
        {
            try
            {
                throw new InvalidOperationException("in the sandbox");
            }
            catch (InvalidOperationException error)
            {
                return error.Message.Length + rounds;
            }
        }
    }
}
