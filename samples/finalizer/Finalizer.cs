// Objects with finalizers, of which the program knows how many ran and how long they took.
//
//   --mode M      healthy: finalizers are quick (the default)
//                 slow:    those of one type sleep, and more objects die than are finalized
//                 blocked: one waits for a lock that the main thread holds, from `go` on
//                 stuck:   the same, from before `ready` on
//                 heavy:   two methods make large objects too, one of them three of four
//   --seconds N   for how long objects are made (default 3)
//   --gate        wait for the line `go` on standard input after `ready`, and for one more line
//                 or its end before leaving
//
// Every 50 ms some objects of each type are made and dropped, and every 100 ms a collection is
// induced. At the end of a healthy or heavy run all of them are finalized. Truth, as of when it is
// printed:
// {"sample":"finalizer","mode":M,"made":{TYPE:N,…},"finalized":{TYPE:N,…},"slow_ns":T,
//  "slow_longest_ns":T,"blocked_in":METHOD or null,"heavy_in":{METHOD:N,…}}
using System;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Clrscope.Samples
{
    public static class Finalizer
    {
        const int QuickOnes = 20;
        const int GenericOnes = 5;
        const int SlowOnes = 20;
        const int HeavyOnes = 250;

        static long quickMade, quickDone, genericMade, genericDone, slowMade, slowDone, stuckMade, stuckDone;
        static long heavyOften, heavySeldom, heavyDone;
        static long slowTicks, slowLongest;
        static readonly Random Random = new Random(20);
        static readonly object Gate = new object();
        static volatile bool leaving;

        sealed class Quick
        {
            ~Quick() => Interlocked.Increment(ref quickDone);
        }

        sealed class Generic<T>
        {
            ~Generic() => Interlocked.Increment(ref genericDone);
        }

        sealed class Slow
        {
            ~Slow()
            {
                long before = Stopwatch.GetTimestamp();
                Doze();
                long took = Stopwatch.GetTimestamp() - before;
                slowTicks += took;
                slowLongest = Math.Max(slowLongest, took);
                Interlocked.Increment(ref slowDone);
            }

            [MethodImpl(MethodImplOptions.NoInlining)]
            static void Doze()
            {
                // A runtime that ends may wait until the queue is empty.
                Thread.Sleep(leaving ? 0 : 20);
                GC.KeepAlive(Gate);
            }
        }

        [StructLayout(LayoutKind.Sequential, Size = 4000)]
        struct Padding
        {
            public byte First;
        }

        sealed class Heavy
        {
            Padding padding;

            ~Heavy()
            {
                Interlocked.Add(ref heavyDone, 1 + padding.First);
            }
        }

        sealed class Stuck
        {
            ~Stuck()
            {
                WaitForGate();
                Interlocked.Increment(ref stuckDone);
            }

            [MethodImpl(MethodImplOptions.NoInlining)]
            static void WaitForGate()
            {
                lock (Gate)
                {
                    GC.KeepAlive(Gate);
                }
            }
        }

        static int Main(string[] args)
        {
            string mode = Text(args, "--mode", "healthy");
            double seconds = double.Parse(Text(args, "--seconds", "3"), CultureInfo.InvariantCulture);
            bool gate = args.Contains("--gate");
            Warm();
            if (mode == "stuck")
            {
                Monitor.Enter(Gate);
                Block();
            }
            Console.WriteLine("ready");
            if (gate)
            {
                Console.ReadLine();
            }
            if (mode == "blocked")
            {
                Monitor.Enter(Gate);
                Block();
            }
            Work(seconds, mode == "slow", mode == "heavy");
            if (mode == "healthy" || mode == "heavy")
            {
                GC.Collect();
                GC.WaitForPendingFinalizers();
            }
            Console.WriteLine(Truth(mode));
            if (gate)
            {
                Console.ReadLine();
            }
            leaving = true;
            if (Monitor.IsEntered(Gate))
            {
                Monitor.Exit(Gate);
            }
            return 0;
        }

        /// Everything is compiled, and the queue is empty.
        static void Warm()
        {
            Make(true);
            MakeHeavy();
            GC.Collect();
            GC.WaitForPendingFinalizers();
            heavyOften = heavySeldom = heavyDone = 0;
            quickMade = quickDone = genericMade = genericDone = slowMade = slowDone = slowTicks = slowLongest = 0;
        }

        static void Work(double seconds, bool slow, bool heavy)
        {
            var clock = Stopwatch.StartNew();
            for (int round = 1; clock.Elapsed.TotalSeconds < seconds; round++)
            {
                Make(slow);
                if (heavy)
                {
                    MakeHeavy();
                }
                if (round % 2 == 0)
                {
                    GC.Collect();
                }
                Thread.Sleep(50);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Make(bool slow)
        {
            for (int i = 0; i < QuickOnes; i++)
            {
                new Quick();
                quickMade++;
            }
            for (int i = 0; i < GenericOnes; i++)
            {
                new Generic<int>();
                genericMade++;
            }
            for (int i = 0; slow && i < SlowOnes; i++)
            {
                new Slow();
                slowMade++;
            }
        }

        /// In no regular order, because .NET 6 to 9 report the object that fills up each 100 KB.
        static void MakeHeavy()
        {
            for (int i = 0; i < HeavyOnes; i++)
            {
                if (Random.Next(4) == 0)
                {
                    MakeSeldom();
                }
                else
                {
                    MakeOften();
                }
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void MakeOften()
        {
            new Heavy();
            heavyOften++;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void MakeSeldom()
        {
            new Heavy();
            heavySeldom++;
        }

        /// The finalizer thread waits for a lock from here on.
        static void Block()
        {
            MakeStuck();
            GC.Collect();
            Thread.Sleep(500);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void MakeStuck()
        {
            new Stuck();
            stuckMade++;
        }

        static string Truth(string mode)
        {
            string made = Counts(quickMade, genericMade, slowMade, stuckMade, heavyOften + heavySeldom);
            string done = Counts(
                Interlocked.Read(ref quickDone), Interlocked.Read(ref genericDone),
                Interlocked.Read(ref slowDone), Interlocked.Read(ref stuckDone),
                Interlocked.Read(ref heavyDone));
            return string.Format(
                CultureInfo.InvariantCulture,
                "{{\"sample\":\"finalizer\",\"mode\":\"{0}\",\"made\":{1},\"finalized\":{2},\"slow_ns\":{3},\"slow_longest_ns\":{4},\"blocked_in\":{5},\"heavy_in\":{{\"MakeOften\":{6},\"MakeSeldom\":{7}}}}}",
                mode, made, done, Nanoseconds(slowTicks), Nanoseconds(slowLongest),
                stuckMade > 0 ? "\"WaitForGate\"" : "null", heavyOften, heavySeldom);
        }

        static long Nanoseconds(long ticks) => (long)(ticks * (1e9 / Stopwatch.Frequency));

        static string Counts(long quick, long generic, long slow, long stuck, long heavy)
        {
            const string Prefix = "Clrscope.Samples.Finalizer+";
            return string.Format(
                CultureInfo.InvariantCulture,
                "{{\"{0}Quick\":{1},\"{0}Generic\":{2},\"{0}Slow\":{3},\"{0}Stuck\":{4},\"{0}Heavy\":{5}}}",
                Prefix, quick, generic, slow, stuck, heavy);
        }

        static string Text(string[] args, string name, string fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? args[at + 1] : fallback;
        }
    }
}
