// Burns CPU time in three methods, split 70 : 20 : 10, and knows exactly how much each got.
//
//   --seconds N   how long to run after `ready` (default 10)
//   --threads N   how many threads burn at once (default 1)
//   --medium N    parts of the second method, of which the first has 7 and the third has 1 (default 2)
//   --every MS    begin a round so long after the one before, and sleep until then (default: at once)
//
// The clock is the burning thread's own CPU time, so that the split holds on a machine that is busy otherwise.
// The length of a round changes at random: a sampler with a fixed period cannot fall into step with it.
using System;
using System.Diagnostics;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Clrscope.Samples
{
    public static class Burn
    {
        /// CPU time of one whole round at scale 1, in nanoseconds.
        const long Round = 40 * 1000 * 1000;

        static long slowNanos, mediumNanos, lightNanos;
        static volatile bool counting;
        static volatile bool stopping;
        static int mediumParts, everyMs;
        public static ulong Sink;

        static int Main(string[] args)
        {
            double seconds = Number(args, "--seconds", 10);
            int threads = (int)Number(args, "--threads", 1);
            mediumParts = (int)Number(args, "--medium", 2);
            everyMs = (int)Number(args, "--every", 0);
            var workers = new Thread[threads];
            for (int i = 0; i < threads; i++)
            {
                int seed = i + 1;
                workers[i] = new Thread(() => Work(seed)) { Name = "burner-" + i, IsBackground = true };
                workers[i].Start();
            }
            Thread.Sleep(700);
            counting = true;
            Console.WriteLine("ready");
            Thread.Sleep(TimeSpan.FromSeconds(seconds));
            stopping = true;
            foreach (Thread worker in workers)
            {
                worker.Join();
            }
            double all = slowNanos + mediumNanos + lightNanos;
            Console.WriteLine(string.Format(
                CultureInfo.InvariantCulture,
                "{{\"sample\":\"burn\",\"cpu_ns\":{0},\"methods\":{{\"slow\":{1:F6},\"medium\":{2:F6},\"light\":{3:F6} }},"
                + "\"names\":{{\"slow\":\"Clrscope.Samples.Burn.Slow\",\"medium\":\"Clrscope.Samples.Burners`1.Nested.Medium\","
                + "\"light\":\"Clrscope.Samples.Burn.Light\"}}}}",
                slowNanos + mediumNanos + lightNanos, slowNanos / all, mediumNanos / all, lightNanos / all));
            return 0;
        }

        static void Work(int seed)
        {
            var random = new Random(seed);
            // What each method is still owed: a slice that overran is taken off the next one, so that the split is exact.
            long slowOwed = 0, mediumOwed = 0, lightOwed = 0;
            // Begun by the clock, so that a round that began late does not delay those after it.
            var clock = Stopwatch.StartNew();
            for (long round = 0; !stopping; round++)
            {
                long early = round * everyMs - clock.ElapsedMilliseconds;
                if (everyMs > 0 && early > 0)
                {
                    Thread.Sleep((int)early);
                }
                long unit = (long)(Round * (0.5 + random.NextDouble()) / 10);
                slowOwed += 7 * unit;
                mediumOwed += mediumParts * unit;
                lightOwed += unit;
                for (int order = random.Next(3), step = 0; step < 3; step++, order = (order + 1) % 3)
                {
                    long spent;
                    switch (order)
                    {
                        case 0:
                            spent = Slow(slowOwed);
                            slowOwed -= spent;
                            Count(ref slowNanos, spent);
                            break;
                        case 1:
                            spent = Burners<string>.Nested.Medium<int>(mediumOwed, 5);
                            mediumOwed -= spent;
                            Count(ref mediumNanos, spent);
                            break;
                        default:
                            spent = Light(lightOwed).Result;
                            lightOwed -= spent;
                            Count(ref lightNanos, spent);
                            break;
                    }
                }
            }
        }

        static void Count(ref long total, long spent)
        {
            if (counting)
            {
                Interlocked.Add(ref total, spent);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Slow(long nanos)
        {
            long start = Clock.ThreadCpu(), now = start;
            ulong x = (ulong)start | 1;
            while (now - start < nanos)
            {
                for (int i = 0; i < 100000; i++)
                {
                    x ^= x << 13;
                    x ^= x >> 7;
                    x ^= x << 17;
                }
                now = Clock.ThreadCpu();
            }
            Sink = x;
            return now - start;
        }

        /// Burns in the body of an async method, once before and once after an await.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static async Task<long> Light(long nanos)
        {
            long spent = 0;
            ulong x = (ulong)nanos | 1;
            for (int half = 0; half < 2; half++)
            {
                // The thread may be another one after the await, and so may its clock.
                long start = Clock.ThreadCpu(), now = start;
                while (now - start < nanos / 2)
                {
                    for (int i = 0; i < 100000; i++)
                    {
                        x ^= x << 13;
                        x ^= x >> 7;
                        x ^= x << 17;
                    }
                    now = Clock.ThreadCpu();
                }
                spent += now - start;
                if (half == 0)
                {
                    await Task.Yield();
                }
            }
            Sink = x;
            return spent;
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }

    public static class Burners<T>
    {
        public static class Nested
        {
            [MethodImpl(MethodImplOptions.NoInlining)]
            public static long Medium<U>(long nanos, U seed)
            {
                long start = Clock.ThreadCpu(), now = start;
                ulong x = (ulong)seed.GetHashCode() | 1;
                while (now - start < nanos)
                {
                    for (int i = 0; i < 100000; i++)
                    {
                        x ^= x << 13;
                        x ^= x >> 7;
                        x ^= x << 17;
                    }
                    now = Clock.ThreadCpu();
                }
                Burn.Sink = x;
                return now - start;
            }
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

        const int ThreadCpuTime = 3;

        [DllImport("libc", EntryPoint = "clock_gettime")]
        static extern int GetTime(int clock, out TimeSpec time);

        /// CPU time of the calling thread, in nanoseconds.
        public static long ThreadCpu()
        {
            TimeSpec time;
            GetTime(ThreadCpuTime, out time);
            return time.Seconds * 1000000000L + time.Nanos;
        }
    }
}
