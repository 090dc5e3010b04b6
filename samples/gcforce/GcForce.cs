// Makes the garbage collector work, and knows how often it did.
//
//   --rounds N    how many rounds of work (default 20)
//   --mb N        how many megabytes a round allocates, most of it garbage at once (default 64)
//   --seconds N   work for this long instead of a given number of rounds
//   --midlife N   instead of such rounds: N parcels, each with a letter, live through one collection of generation 0 and
//                 then die, held by a queue in a static; and one keepsake, held by a local variable. Again and again, for
//                 --seconds. Every collection that the runtime makes by itself meanwhile finds just these
//   --gate        wait for the line `go` on standard input after `ready`, and for one more line or its end before leaving
//
// How much the youngest generation may grow before the runtime collects depends on the processor's cache;
// COMPlus_GCgen0size=2000000 (hexadecimal bytes) in the environment makes it the same everywhere.
//
// A round allocates short-lived and surviving objects (which makes the runtime collect by itself), then asks for one
// collection of each generation. Counts are differences of GC.CollectionCount, which counts a collection of a generation
// also for the younger ones.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Clrscope.Samples
{
    public static class GcForce
    {
        sealed class Node
        {
            public Node Next;
            public byte[] Bytes;
        }

        /// Dies in generation 1: 32 bytes.
        sealed class Parcel
        {
            public Letter Letter;
            public long Number;
        }

        /// What a parcel holds: 24 bytes.
        sealed class Letter
        {
            public long Number;
        }

        /// Held by a local variable: 24 bytes.
        sealed class Keepsake
        {
            public long Number;
        }

        static readonly Queue<Parcel> queue = new Queue<Parcel>(4096);
        static int megabytes;
        static Node survivors;
        static readonly List<byte[]> large = new List<byte[]>();

        static int Main(string[] args)
        {
            double rounds = Number(args, "--rounds", 20);
            double seconds = Number(args, "--seconds", 0);
            megabytes = (int)Number(args, "--mb", 64);
            bool gate = args.Contains("--gate");
            int midlife = (int)Number(args, "--midlife", 0);
            if (midlife > 0)
            {
                return MidLives(midlife, seconds, gate);
            }
            Round();
            Console.WriteLine("ready");
            if (gate)
            {
                Console.ReadLine();
            }
            int[] before = Counts();
            double pausedBefore = Paused();
            var clock = Stopwatch.StartNew();
            int done = 0;
            while (seconds > 0 ? clock.Elapsed.TotalSeconds < seconds : done < rounds)
            {
                Round();
                done++;
            }
            double paused = pausedBefore < 0 ? -1 : Paused() - pausedBefore;
            int[] after = Counts();
            int[] counts = after.Zip(before, (a, b) => a - b).ToArray();
            Console.WriteLine(string.Format(
                CultureInfo.InvariantCulture,
                "{{\"sample\":\"gcforce\",\"rounds\":{0},\"seconds\":{1:F3},\"collection_count\":[{2},{3},{4}],"
                + "\"by_generation\":[{5},{6},{4}],\"induced\":[{0},{0},{0}],\"paused_ms\":{7}}}",
                done, clock.Elapsed.TotalSeconds, counts[0], counts[1], counts[2],
                counts[0] - counts[1], counts[1] - counts[2], paused < 0 ? "null" : paused.ToString("F3", CultureInfo.InvariantCulture)));
            if (gate)
            {
                Console.ReadLine();
            }
            GC.KeepAlive(survivors);
            return 0;
        }

        static int MidLives(int parcels, double seconds, bool gate)
        {
            for (int i = 0; i < 3; i++)
            {
                MidLife(parcels);
            }
            // The queue's array becomes old.
            GC.Collect(2, GCCollectionMode.Forced, true);
            GC.Collect(2, GCCollectionMode.Forced, true);
            Console.WriteLine("ready");
            if (gate)
            {
                Console.ReadLine();
            }
            int[] before = Counts();
            var clock = Stopwatch.StartNew();
            int done = 0;
            while (clock.Elapsed.TotalSeconds < seconds)
            {
                MidLife(parcels);
                done++;
            }
            int[] counts = Counts().Zip(before, (a, b) => a - b).ToArray();
            Console.WriteLine(string.Format(
                CultureInfo.InvariantCulture,
                "{{\"sample\":\"gcforce\",\"midlives\":{0},\"parcels\":{1},\"seconds\":{2:F3},\"collection_count\":[{3},{4},{5}]}}",
                done, parcels, clock.Elapsed.TotalSeconds, counts[0], counts[1], counts[2]));
            if (gate)
            {
                Console.ReadLine();
            }
            return 0;
        }

        /// Begins and ends just after a collection, so that none can come while parcels are made or taken away.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static void MidLife(int parcels)
        {
            for (int i = 0; i < parcels; i++)
            {
                queue.Enqueue(new Parcel { Letter = new Letter { Number = i }, Number = i });
            }
            var keepsake = new Keepsake { Number = parcels };
            UntilCollected();
            GC.KeepAlive(keepsake);
            queue.Clear();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void UntilCollected()
        {
            int count = GC.CollectionCount(0);
            while (GC.CollectionCount(0) == count)
            {
                garbage = new byte[1000];
            }
            garbage = null;
        }

        static byte[] garbage;

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Round()
        {
            survivors = null;
            large.Clear();
            for (int i = 0; i < megabytes * 3500; i++)
            {
                Allocate(i);
            }
            for (int i = 0; i < 8; i++)
            {
                large.Add(new byte[200 * 1024]);
            }
            GC.Collect(0, GCCollectionMode.Forced, true);
            GC.Collect(1, GCCollectionMode.Forced, true);
            GC.Collect(2, GCCollectionMode.Forced, true);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Allocate(int i)
        {
            var node = new Node { Bytes = new byte[256] };
            if (i % 32 == 0)
            {
                node.Next = survivors;
                survivors = node;
            }
        }

        static int[] Counts()
        {
            return new[] { GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2) };
        }

        /// All pauses so far in milliseconds as the runtime itself counts them (.NET 7 and newer), else -1.
        static double Paused()
        {
            MethodInfo method = typeof(GC).GetMethod("GetTotalPauseDuration");
            return method == null ? -1 : ((TimeSpan)method.Invoke(null, null)).TotalMilliseconds;
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }
}
