// Pairs of threads that hand work over all the time, and that measure themselves on request: for
// benchmarks of what recording costs a program that switches between threads more often than it
// computes.
//
//   --pairs N   pairs of threads (default 2)
//
// The two threads of a pair wake each other with AutoResetEvents, as producers and consumers do. An
// operation is one hand-over: one thread sets the event, and the other one has returned from its
// wait.
//
// Commands on standard input: `window MS` measures for so many milliseconds and answers with one
// JSON line; `more N` starts so many pairs more and answers with their number, as a JSON line; `quit`
// or the end of the input ends the program. CPU time is the whole process's, so
// that threads of a profiler inside the process count.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Clrscope.Samples
{
    public static class HandOver
    {
        sealed class Pair
        {
            public readonly AutoResetEvent Ping = new AutoResetEvent(false);
            public readonly AutoResetEvent Pong = new AutoResetEvent(false);
            long done;

            public long Done
            {
                get { return Interlocked.Read(ref done); }
            }

            public void Count()
            {
                Interlocked.Increment(ref done);
            }
        }

        static int Main(string[] args)
        {
            var pairs = new List<Pair>();
            Add(pairs, (int)Number(args, "--pairs", 2));
            Thread.Sleep(1000);
            Console.WriteLine("ready");
            string line;
            while ((line = Console.ReadLine()) != null && line != "quit")
            {
                string[] words = line.Split(' ');
                if (words[0] == "window" && words.Length == 2)
                {
                    Window(pairs, int.Parse(words[1], CultureInfo.InvariantCulture));
                }
                else if (words[0] == "more" && words.Length == 2)
                {
                    Add(pairs, int.Parse(words[1], CultureInfo.InvariantCulture));
                    Console.WriteLine("{\"pairs\":" + pairs.Count + "}");
                }
                else
                {
                    Console.WriteLine("{\"error\":\"unknown command\"}");
                }
            }
            return 0;
        }

        static void Add(List<Pair> pairs, int more)
        {
            for (int i = pairs.Count, end = i + more; i < end; i++)
            {
                var pair = new Pair();
                pairs.Add(pair);
                Start("giver-" + i, () => Run(pair, pair.Ping, pair.Pong));
                Start("taker-" + i, () => Run(pair, pair.Pong, pair.Ping));
                pair.Ping.Set();
            }
        }

        static void Start(string name, ThreadStart body)
        {
            new Thread(body) { Name = name, IsBackground = true }.Start();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Run(Pair pair, AutoResetEvent mine, AutoResetEvent theirs)
        {
            while (true)
            {
                mine.WaitOne();
                pair.Count();
                theirs.Set();
            }
        }

        static void Window(List<Pair> pairs, int milliseconds)
        {
            long operations = Operations(pairs), cpu = Clock.ProcessCpu();
            var clock = Stopwatch.StartNew();
            Thread.Sleep(milliseconds);
            long wall = clock.ElapsedTicks * 1000000000L / Stopwatch.Frequency;
            cpu = Clock.ProcessCpu() - cpu;
            operations = Operations(pairs) - operations;
            Console.WriteLine(string.Format(
                CultureInfo.InvariantCulture, "{{\"operations\":{0},\"cpu_ns\":{1},\"wall_ns\":{2}}}", operations, cpu, wall));
        }

        static long Operations(List<Pair> pairs)
        {
            long sum = 0;
            foreach (Pair pair in pairs)
            {
                sum += pair.Done;
            }
            return sum;
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
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

        [DllImport("libc", EntryPoint = "clock_gettime")]
        static extern int GetTime(int clock, out TimeSpec time);

        /// CPU time of the whole process, in nanoseconds.
        public static long ProcessCpu()
        {
            TimeSpec time;
            GetTime(ProcessCpuTime, out time);
            return time.Seconds * 1000000000L + time.Nanos;
        }
    }
}
