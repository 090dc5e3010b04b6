// Background collections, with enough allocated meanwhile that younger ones run within them, and how many there were:
// five, unless the machine is so busy that one is asked for while the last still runs.
using System;
using System.Collections.Generic;
using System.Runtime;
using System.Threading;

public static class Background
{
    static object[] survivors;
    static volatile bool stop;
    static object sink;

    public static int Main()
    {
        // Many small objects that refer to each other: work for the marking thread.
        survivors = new object[2000000];
        for (int i = 0; i < survivors.Length; i++)
        {
            survivors[i] = new object[] { new byte[16], i > 0 ? survivors[i / 2] : null };
        }
        GC.Collect(2, GCCollectionMode.Forced, true);
        // The first ones make the collector's thread, and are blocking ones.
        Collect(3);
        Console.WriteLine("ready");
        Console.ReadLine();
        var allocating = new Thread(Allocate);
        allocating.Start();
        int before = GC.CollectionCount(2);
        Collect(5);
        stop = true;
        allocating.Join();
        // The last one ends.
        Thread.Sleep(2000);
        Console.WriteLine("done " + (GC.CollectionCount(2) - before));
        Console.ReadLine();
        GC.KeepAlive(survivors);
        return 0;
    }

    static void Collect(int times)
    {
        for (int i = 0; i < times; i++)
        {
            GC.Collect(2, GCCollectionMode.Forced, false);
            // Another one would wait for it to end.
            Thread.Sleep(400);
        }
    }

    static void Allocate()
    {
        while (!stop)
        {
            sink = new byte[4000];
        }
    }
}
