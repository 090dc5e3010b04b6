// Does one kind of work without end and measures itself on request: for benchmarks of what observation costs.
//
//   --work KIND   cpu, alloc, exceptions, locks (cpu, of which an eighth is done in a lock that all threads share), or
//                 paced: cpu with exceptions at a given rate (default cpu)
//   --threads N   how many threads work (default 1)
//   --rate N      exceptions per second of CPU time of `paced` (default 10000)
//
// Commands on standard input: `window MS` measures for so many milliseconds and answers with one JSON line;
// `quit` or the end of the input ends the program. An operation is one unit of the kind of work; for `paced` it is
// one unit of the cpu work done beside the exceptions. CPU time is the whole process's, so that threads of an observer
// inside the process count against it.
using System;
using System.Diagnostics;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Clrscope.Samples
{
    public static class Throughput
    {
        /// One thread's counters, apart in memory from those of the others.
        [StructLayout(LayoutKind.Explicit, Size = 256)]
        struct Counters
        {
            [FieldOffset(64)] public long Operations;
            [FieldOffset(72)] public long Exceptions;
        }

        sealed class Item
        {
            public Item Next;
            public long Value;
            public byte[] Payload;
        }

        sealed class Failure : Exception
        {
        }

        static Counters[] counters;
        static double rate;
        static volatile bool stopping;
        public static ulong Sink;

        static int Main(string[] args)
        {
            string work = Text(args, "--work", "cpu");
            int threads = (int)Number(args, "--threads", 1);
            rate = Number(args, "--rate", 10000) / threads;
            counters = new Counters[threads];
            for (int i = 0; i < threads; i++)
            {
                int index = i;
                ThreadStart body;
                switch (work)
                {
                    case "cpu": body = () => Cpu(index); break;
                    case "alloc": body = () => Alloc(index); break;
                    case "locks": body = () => Locks(index); break;
                    case "exceptions": body = () => Exceptions(index); break;
                    case "paced": body = () => Paced(index); break;
                    default: throw new ArgumentException("unknown work: " + work);
                }
                new Thread(body) { Name = work + "-" + i, IsBackground = true }.Start();
            }
            Thread.Sleep(1000);
            Console.WriteLine("ready");
            string line;
            while ((line = Console.ReadLine()) != null && line != "quit")
            {
                string[] words = line.Split(' ');
                if (words[0] == "window" && words.Length == 2)
                {
                    Window(int.Parse(words[1], CultureInfo.InvariantCulture));
                }
                else
                {
                    Console.WriteLine("{\"error\":\"unknown command\"}");
                }
            }
            stopping = true;
            return 0;
        }

        static void Window(int milliseconds)
        {
            long operations = Operations(), exceptions = Thrown(), cpu = Clock.ProcessCpu();
            var clock = Stopwatch.StartNew();
            Thread.Sleep(milliseconds);
            long wall = clock.ElapsedTicks * 1000000000L / Stopwatch.Frequency;
            cpu = Clock.ProcessCpu() - cpu;
            operations = Operations() - operations;
            exceptions = Thrown() - exceptions;
            Console.WriteLine(string.Format(
                CultureInfo.InvariantCulture, "{{\"operations\":{0},\"exceptions\":{1},\"cpu_ns\":{2},\"wall_ns\":{3}}}",
                operations, exceptions, cpu, wall));
        }

        static long Operations()
        {
            long sum = 0;
            for (int i = 0; i < counters.Length; i++)
            {
                sum += Volatile.Read(ref counters[i].Operations);
            }
            return sum;
        }

        static long Thrown()
        {
            long sum = 0;
            for (int i = 0; i < counters.Length; i++)
            {
                sum += Volatile.Read(ref counters[i].Exceptions);
            }
            return sum;
        }

        static void Cpu(int index)
        {
            ulong x = (ulong)index + 1;
            while (!stopping)
            {
                x = Unit(x);
                Volatile.Write(ref counters[index].Operations, counters[index].Operations + 1);
            }
            Sink = x;
        }

        static readonly object gate = new object();

        static void Locks(int index)
        {
            ulong x = (ulong)index + 1;
            while (!stopping)
            {
                for (int i = 0; i < 28; i++)
                {
                    x = Unit(x);
                }
                lock (gate)
                {
                    for (int i = 0; i < 4; i++)
                    {
                        x = Unit(x);
                    }
                }
                Volatile.Write(ref counters[index].Operations, counters[index].Operations + 32);
            }
            Sink = x;
        }

        /// About a microsecond of work, a few calls deep.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static ulong Unit(ulong x)
        {
            for (int i = 0; i < 8; i++)
            {
                x = Mix(x) + Mix(x + 1);
            }
            return x;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static ulong Mix(ulong x)
        {
            for (int i = 0; i < 32; i++)
            {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
            }
            return x | 1;
        }

        static void Alloc(int index)
        {
            while (!stopping)
            {
                Sink += (ulong)List(index);
                Volatile.Write(ref counters[index].Operations, counters[index].Operations + 1);
            }
        }

        /// A short list of small objects that nobody keeps.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static long List(int seed)
        {
            Item head = null;
            for (int i = 0; i < 16; i++)
            {
                head = new Item { Next = head, Value = seed + i, Payload = new byte[16 + 8 * i] };
            }
            long sum = 0;
            for (Item item = head; item != null; item = item.Next)
            {
                sum += item.Value + item.Payload.Length;
            }
            return sum;
        }

        static void Exceptions(int index)
        {
            while (!stopping)
            {
                Throw(4);
                Volatile.Write(ref counters[index].Exceptions, counters[index].Exceptions + 1);
                Volatile.Write(ref counters[index].Operations, counters[index].Operations + 1);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Throw(int depth)
        {
            try
            {
                Fail(depth);
            }
            catch (Failure)
            {
                Sink++;
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Fail(int depth)
        {
            if (depth == 0)
            {
                throw new Failure();
            }
            return Fail(depth - 1) + 1;
        }

        static void Paced(int index)
        {
            ulong x = (ulong)index + 1;
            // By CPU time, so that the share of the work that goes into exceptions is the same on a busy machine.
            long begin = Clock.ThreadCpu();
            double thrown = 0;
            while (!stopping)
            {
                for (int i = 0; i < 10; i++)
                {
                    x = Unit(x);
                }
                Volatile.Write(ref counters[index].Operations, counters[index].Operations + 10);
                double due = (Clock.ThreadCpu() - begin) * 1e-9 * rate;
                for (; thrown < due; thrown++)
                {
                    Throw(4);
                    Volatile.Write(ref counters[index].Exceptions, counters[index].Exceptions + 1);
                }
            }
            Sink = x;
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

    static class Clock
    {
        [StructLayout(LayoutKind.Sequential)]
        struct TimeSpec
        {
            public long Seconds;
            public long Nanos;
        }

        const int ProcessCpuTime = 2;
        const int ThreadCpuTime = 3;

        [DllImport("libc", EntryPoint = "clock_gettime")]
        static extern int GetTime(int clock, out TimeSpec time);

        /// CPU time of the whole process, in nanoseconds.
        public static long ProcessCpu()
        {
            return Now(ProcessCpuTime);
        }

        /// CPU time of the calling thread, in nanoseconds.
        public static long ThreadCpu()
        {
            return Now(ThreadCpuTime);
        }

        static long Now(int clock)
        {
            TimeSpec time;
            GetTime(clock, out time);
            return time.Seconds * 1000000000L + time.Nanos;
        }
    }
}
