// Threads that wait for two locks, and know how often and how long.
//
//   --waits N     how often each lock is waited for (default 100)
//   --hot N       how many milliseconds the hot lock is held each time (default 8)
//   --cold N      how many the cold one is (default 2)
//   --spin N      instead: N threads that take the hot lock as often as they can, to measure what observing costs
//   --seconds N   for how long they do (default 5)
//   --gate        wait for the line `go` on standard input after `ready`, and for one more line or its end before leaving
//
// Each lock has a thread that holds it and one that waits for it. The holder takes the lock, tells the waiter to want it
// too, holds it for its time and lets go; the waiter measures. They talk by kernel events, which are no monitors.
using System;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Clrscope.Samples
{
    public static class Locker
    {
        sealed class Pair
        {
            public readonly object Lock = new object();
            public readonly AutoResetEvent Want = new AutoResetEvent(false);
            public readonly AutoResetEvent Had = new AutoResetEvent(false);
            public int Hold;
            public int Waits;
            public long Waited;
            public long Longest;
        }

        static int Main(string[] args)
        {
            int waits = (int)Number(args, "--waits", 100);
            int spin = (int)Number(args, "--spin", 0);
            bool gate = args.Contains("--gate");
            var hot = new Pair { Hold = (int)Number(args, "--hot", 8) };
            var cold = new Pair { Hold = (int)Number(args, "--cold", 2) };
            Run(hot, cold, 3);
            foreach (Pair pair in new[] { hot, cold })
            {
                pair.Waits = 0;
                pair.Waited = pair.Longest = 0;
            }
            Console.WriteLine("ready");
            if (gate)
            {
                Console.ReadLine();
            }
            if (spin > 0)
            {
                Console.WriteLine(Spin(hot, spin, Number(args, "--seconds", 5)));
            }
            else
            {
                var clock = Stopwatch.StartNew();
                Run(hot, cold, waits);
                Console.WriteLine(string.Format(
                    CultureInfo.InvariantCulture,
                    "{{\"sample\":\"locker\",\"seconds\":{0:F3},\"locks\":{{\"hot\":{1},\"cold\":{2}}}}}",
                    clock.Elapsed.TotalSeconds, Truth(hot, "WaitHot", "hold-hot"), Truth(cold, "WaitCold", "hold-cold")));
            }
            if (gate)
            {
                Console.ReadLine();
            }
            return 0;
        }

        static string Truth(Pair pair, string method, string holder)
        {
            return string.Format(
                CultureInfo.InvariantCulture,
                "{{\"waits\":{0},\"waited_ns\":{1},\"longest_ns\":{2},\"waited_in\":\"{3}\",\"held_by\":\"{4}\"}}",
                pair.Waits, pair.Waited, pair.Longest, method, holder);
        }

        static void Run(Pair hot, Pair cold, int waits)
        {
            var threads = new[]
            {
                new Thread(() => Hold(hot, waits)) { Name = "hold-hot" },
                new Thread(() => Hold(cold, waits)) { Name = "hold-cold" },
                new Thread(() => Wait(hot, waits, WaitHot)) { Name = "wait-hot" },
                new Thread(() => Wait(cold, waits, WaitCold)) { Name = "wait-cold" },
            };
            foreach (Thread thread in threads)
            {
                thread.Start();
            }
            foreach (Thread thread in threads)
            {
                thread.Join();
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Hold(Pair pair, int waits)
        {
            for (int i = 0; i < waits; i++)
            {
                lock (pair.Lock)
                {
                    pair.Want.Set();
                    Thread.Sleep(pair.Hold);
                }
                pair.Had.WaitOne();
            }
        }

        static void Wait(Pair pair, int waits, Action<Pair> wait)
        {
            for (int i = 0; i < waits; i++)
            {
                pair.Want.WaitOne();
                long before = Stopwatch.GetTimestamp();
                wait(pair);
                long waited = (long)((Stopwatch.GetTimestamp() - before) * (1e9 / Stopwatch.Frequency));
                pair.Waits++;
                pair.Waited += waited;
                pair.Longest = Math.Max(pair.Longest, waited);
                pair.Had.Set();
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitHot(Pair pair)
        {
            lock (pair.Lock)
            {
                pair.Hold += 0;
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitCold(Pair pair)
        {
            lock (pair.Lock)
            {
                pair.Hold += 0;
            }
        }

        /// Operations of all threads together: each takes the lock, works a little, and works a little outside.
        static string Spin(Pair pair, int count, double seconds)
        {
            var done = new long[count * 16];
            var clock = Stopwatch.StartNew();
            var threads = Enumerable.Range(0, count).Select(index => new Thread(() =>
            {
                while (clock.Elapsed.TotalSeconds < seconds)
                {
                    lock (pair.Lock)
                    {
                        Thread.SpinWait(400);
                    }
                    Thread.SpinWait(100);
                    done[index * 16]++;
                }
            }) { Name = "spin-" + index }).ToArray();
            foreach (Thread thread in threads)
            {
                thread.Start();
            }
            foreach (Thread thread in threads)
            {
                thread.Join();
            }
            return string.Format(
                CultureInfo.InvariantCulture, "{{\"sample\":\"locker\",\"seconds\":{0:F3},\"operations\":{1}}}",
                clock.Elapsed.TotalSeconds, done.Sum());
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }
}
