// Allocates three types from three methods, and knows how much of each.
//
//   --mb N        how many megabytes of small objects to allocate (default 600)
//   --large N     how many large arrays of 200,000 bytes to allocate between them (default 200)
//   --seconds N   allocate for this long instead of a given amount
//   --gate        wait for the line `go` on standard input after `ready`, and for one more line or its end before leaving
//
// Of the bytes of small objects 70 % are in Heavy (1000 bytes each), 20 % in Middle (200), 10 % in Light (40). Which comes
// next is by chance, so that a sampler that looks at every so many bytes sees each as often as it should.
using System;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Clrscope.Samples
{
    [StructLayout(LayoutKind.Sequential, Size = 984)]
    struct Bytes984
    {
        public long First;
    }

    [StructLayout(LayoutKind.Sequential, Size = 184)]
    struct Bytes184
    {
        public long First;
    }

    [StructLayout(LayoutKind.Sequential, Size = 24)]
    struct Bytes24
    {
        public long First;
    }

    // An object has 16 bytes before its fields.
    sealed class Heavy
    {
        public Bytes984 Fields;
    }

    sealed class Middle
    {
        public Bytes184 Fields;
    }

    sealed class Light
    {
        public Bytes24 Fields;
    }

    public static class Allocator
    {
        static object kept;
        static ulong random = 88172645463325252;
        static long heavy, middle, light, large;

        static int Main(string[] args)
        {
            long bytes = (long)(Number(args, "--mb", 600) * 1e6);
            double arrays = Number(args, "--large", 200);
            double seconds = Number(args, "--seconds", 0);
            bool gate = args.Contains("--gate");
            Allocate(20000000, 5, 0);
            Console.WriteLine("ready");
            if (gate)
            {
                Console.ReadLine();
            }
            heavy = middle = light = large = 0;
            long before = GC.GetAllocatedBytesForCurrentThread();
            var clock = Stopwatch.StartNew();
            Allocate(bytes, arrays, seconds);
            long all = GC.GetAllocatedBytesForCurrentThread() - before;
            double taken = clock.Elapsed.TotalSeconds;
            Console.WriteLine(string.Format(
                CultureInfo.InvariantCulture,
                "{{\"sample\":\"allocator\",\"seconds\":{0:F3},\"allocated\":{1},\"types\":{{{2},{3},{4},{5}}}}}",
                taken, all,
                Truth("Clrscope.Samples.Heavy", "MakeHeavy", heavy, 1000), Truth("Clrscope.Samples.Middle", "MakeMiddle", middle, 200),
                Truth("Clrscope.Samples.Light", "MakeLight", light, 40), Truth("byte[]", "MakeLarge", large, 200024)));
            if (gate)
            {
                Console.ReadLine();
            }
            GC.KeepAlive(kept);
            return 0;
        }

        static string Truth(string type, string method, long count, long size)
        {
            return string.Format(
                CultureInfo.InvariantCulture, "\"{0}\":{{\"method\":\"{1}\",\"objects\":{2},\"bytes\":{3}}}", type, method, count, count * size);
        }

        static void Allocate(long bytes, double arrays, double seconds)
        {
            long done = 0, next = 0;
            long step = arrays > 0 ? (long)(bytes / arrays) : long.MaxValue;
            var clock = Stopwatch.StartNew();
            while (seconds > 0 ? clock.Elapsed.TotalSeconds < seconds : done < bytes)
            {
                // The clock is asked now and then only.
                for (int i = 0; i < 1000; i++)
                {
                    done += One();
                }
                for (; done >= next && step < long.MaxValue; next += step)
                {
                    MakeLarge();
                }
            }
        }

        /// One small object; of every 42 there are on average 7 heavy, 10 middle and 25 light ones: bytes as 70 : 20 : 10.
        static int One()
        {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            ulong choice = (random >> 11) % 42;
            if (choice < 7)
            {
                MakeHeavy();
                return 1000;
            }
            if (choice < 17)
            {
                MakeMiddle();
                return 200;
            }
            MakeLight();
            return 40;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void MakeHeavy()
        {
            kept = new Heavy();
            heavy++;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void MakeMiddle()
        {
            kept = new Middle();
            middle++;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void MakeLight()
        {
            kept = new Light();
            light++;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void MakeLarge()
        {
            kept = new byte[200000];
            large++;
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }
}
