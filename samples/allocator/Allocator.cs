// Allocates three types from three methods, and knows how much of each.
//
//   --mb N        how many megabytes of small objects to allocate (default 600)
//   --large N     how many large arrays of 200,000 bytes to allocate between them (default 200)
//   --seconds N   allocate for this long instead of a given amount
//   --exact       allocate some more at the end, of types that nobody else has, and tell under `all` how much of each type
//                 there was since the start of the program, warming up included
//   --gate        wait for the line `go` on standard input after `ready`, and for one more line or its end before leaving
//
// Of the bytes of small objects 70 % are in Heavy (1000 bytes each), 20 % in Middle (200), 10 % in Light (40). Which comes
// next is by chance, so that a sampler that looks at every so many bytes sees each as often as it should.
using System;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Collections.Generic;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

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

    struct Bytes3
    {
        public byte First, Second, Third;
    }

    sealed class Pair<T>
    {
        public T First;
    }

    sealed class OfThread
    {
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
            long warmHeavy = heavy, warmMiddle = middle, warmLight = light;
            heavy = middle = light = large = 0;
            long before = GC.GetAllocatedBytesForCurrentThread();
            var clock = Stopwatch.StartNew();
            Allocate(bytes, arrays, seconds);
            long all = GC.GetAllocatedBytesForCurrentThread() - before;
            double taken = clock.Elapsed.TotalSeconds;
            string exact = "";
            if (args.Contains("--exact"))
            {
                var types = new SortedDictionary<string, long[]>(StringComparer.Ordinal);
                Count(types, "Clrscope.Samples.Heavy", warmHeavy + heavy, 1000);
                Count(types, "Clrscope.Samples.Middle", warmMiddle + middle, 200);
                Count(types, "Clrscope.Samples.Light", warmLight + light, 40);
                Exact(types);
                exact = ",\"all\":{" + string.Join(",", types.Select(type => string.Format(
                    CultureInfo.InvariantCulture, "\"{0}\":{{\"objects\":{1},\"bytes\":{2}}}", type.Key, type.Value[0], type.Value[1]))) + "}";
            }
            Console.WriteLine(string.Format(
                CultureInfo.InvariantCulture,
                "{{\"sample\":\"allocator\",\"seconds\":{0:F3},\"allocated\":{1},\"types\":{{{2},{3},{4},{5}}}{6}}}",
                taken, all,
                Truth("Clrscope.Samples.Heavy", "MakeHeavy", heavy, 1000), Truth("Clrscope.Samples.Middle", "MakeMiddle", middle, 200),
                Truth("Clrscope.Samples.Light", "MakeLight", light, 40), Truth("byte[]", "MakeLarge", large, 200024), exact));
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

        /// Adds objects of one size, which is rounded up to 8 bytes as the collector does.
        static void Count(SortedDictionary<string, long[]> types, string type, long objects, long size)
        {
            long[] known;
            if (!types.TryGetValue(type, out known))
            {
                types[type] = known = new long[2];
            }
            known[0] += objects;
            known[1] += objects * ((size + 7) / 8 * 8);
        }

        /// Objects of all shapes. An array has 24 bytes before its elements, and 8 more for each dimension if there are several.
        static void Exact(SortedDictionary<string, long[]> types)
        {
            for (int i = 0; i < 100; i++)
            {
                kept = (object)new Bytes24();
                Count(types, "Clrscope.Samples.Bytes24", 1, 40);
                kept = new Light[i];
                Count(types, "Clrscope.Samples.Light[]", 1, 24 + 8 * i);
                kept = new Bytes3[i];
                Count(types, "Clrscope.Samples.Bytes3[]", 1, 24 + 3 * i);
                kept = new Bytes3[2, 5 + i];
                Count(types, "Clrscope.Samples.Bytes3[,]", 1, 24 + 16 + 3 * 2 * (5 + i));
                kept = new Pair<int>();
                Count(types, "Clrscope.Samples.Pair<int>", 1, 24);
                kept = new Pair<string>();
                Count(types, "Clrscope.Samples.Pair<string>", 1, 24);
            }
            // Threads that end, so that the numbers of some come again.
            for (int round = 0; round < 10; round++)
            {
                Thread[] threads = Enumerable.Range(0, 4).Select(_ => new Thread(AllocateInThread)).ToArray();
                Array.ForEach(threads, thread => thread.Start());
                Array.ForEach(threads, thread => thread.Join());
                Count(types, "Clrscope.Samples.OfThread", 4 * 500, 24);
            }
            // Types that are unloaded, so that their places in memory come again.
            for (int round = 0; round < 20; round++)
            {
                WeakReference assembly = Pass(types, round);
                for (int i = 0; assembly.IsAlive && i < 20; i++)
                {
                    GC.Collect();
                    GC.WaitForPendingFinalizers();
                }
            }
        }

        static void AllocateInThread()
        {
            for (int i = 0; i < 500; i++)
            {
                Interlocked.Exchange(ref kept, new OfThread());
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static WeakReference Pass(SortedDictionary<string, long[]> types, int round)
        {
            string name = "Passing" + round;
            AssemblyBuilder assembly = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName(name), AssemblyBuilderAccess.RunAndCollect);
            Type type = assembly.DefineDynamicModule(name).DefineType(name, TypeAttributes.Public).CreateType();
            for (int i = 0; i < 100 + round; i++)
            {
                kept = Activator.CreateInstance(type);
            }
            Count(types, name, 100 + round, 24);
            kept = Array.CreateInstance(type, round);
            Count(types, name + "[]", 1, 24 + 8 * round);
            kept = null;
            return new WeakReference(assembly);
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }
}
