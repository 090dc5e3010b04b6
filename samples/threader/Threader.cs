// Threads that are leaked, that can never go on, or that are as they should be.
//
//   --leak N      threads that are started in each second and never end
//   --zombie N    threads that wait for ever for an event that nobody sets
//   --asleep N    threads that sleep for ever
//   --healthy     threads that are as they should be: workers to which work comes, threads that end, and some that wait for
//                 what may come (work, a connection, a time)
//   --busy N      that many more threads that only wait, to measure what looking at them costs
//   --seconds N   for how long (default 10)
//   --gate        wait for the line `go` on standard input after `ready`, and for one more line or its end before leaving
//
// Zombies are there when it is ready; leaked threads and those that end are started afterwards.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Clrscope.Samples
{
    public static class Threader
    {
        static readonly ManualResetEvent nobody = new ManualResetEvent(false);
        static readonly BlockingCollection<int> work = new BlockingCollection<int>();
        static readonly BlockingCollection<int> noWork = new BlockingCollection<int>();
        static readonly List<string> zombies = new List<string>();
        static readonly List<string> healthy = new List<string>();
        static int leaked;
        static int ended;
        static long worked;

        static int Main(string[] args)
        {
            double seconds = Number(args, "--seconds", 10);
            double leak = Number(args, "--leak", 0);
            bool gate = args.Contains("--gate");
            for (int i = 0; i < (int)Number(args, "--zombie", 0); i++)
            {
                Start("zombie-" + i, zombies, WaitForNobody);
            }
            for (int i = 0; i < (int)Number(args, "--asleep", 0); i++)
            {
                Start("asleep-" + i, zombies, SleepForEver);
            }
            for (int i = 0; i < (int)Number(args, "--busy", 0); i++)
            {
                Start("busy-" + i, new List<string>(), WaitForNobody);
            }
            if (args.Contains("--healthy"))
            {
                for (int i = 0; i < 3; i++)
                {
                    Start("worker-" + i, healthy, Work);
                }
                Start("out-of-work", healthy, WaitForWork);
                Start("acceptor", healthy, Accept);
                Start("janitor", healthy, () => Thread.Sleep(TimeSpan.FromMinutes(10)));
            }
            Thread.Sleep(300);
            Console.WriteLine("ready");
            if (gate)
            {
                Console.ReadLine();
            }
            var clock = Stopwatch.StartNew();
            while (clock.Elapsed.TotalSeconds < seconds)
            {
                if (args.Contains("--healthy"))
                {
                    work.Add(1);
                    work.Add(2);
                    work.Add(3);
                    StartShort();
                }
                while (leaked < leak * clock.Elapsed.TotalSeconds)
                {
                    StartLeaked();
                }
                Thread.Sleep(50);
            }
            string all;
            lock (zombies)
            {
                all = string.Format(
                    CultureInfo.InvariantCulture,
                    "{{\"sample\":\"threader\",\"seconds\":{0:F3},\"leaked\":{1},\"leaked_by\":\"StartLeaked\",\"ended\":{2}," +
                    "\"ended_by\":\"StartShort\",\"worked\":{3},\"zombies\":{{{4}}},\"healthy\":{{{5}}}}}",
                    clock.Elapsed.TotalSeconds, leaked, ended, worked, string.Join(",", zombies), string.Join(",", healthy));
            }
            Console.WriteLine(all);
            if (gate)
            {
                Console.ReadLine();
            }
            return 0;
        }

        /// A thread of this name; its number in the kernel goes to the list.
        static void Start(string name, List<string> list, Action run)
        {
            var thread = new Thread(() =>
            {
                lock (zombies)
                {
                    list.Add("\"" + name + "\":" + Gettid(186));
                }
                run();
            }) { Name = name, IsBackground = true };
            thread.Start();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void StartLeaked()
        {
            new Thread(WaitForNobody) { Name = "leaked-" + leaked, IsBackground = true }.Start();
            leaked++;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void StartShort()
        {
            new Thread(() => Thread.Sleep(100)) { Name = "short-" + ended, IsBackground = true }.Start();
            ended++;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitForNobody()
        {
            nobody.WaitOne();
            GC.KeepAlive(nobody);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void SleepForEver()
        {
            Thread.Sleep(Timeout.Infinite);
            GC.KeepAlive(nobody);
        }

        static void Work()
        {
            while (true)
            {
                int item = work.Take();
                Thread.SpinWait(1000 * item);
                Interlocked.Increment(ref worked);
            }
        }

        static void WaitForWork()
        {
            while (true)
            {
                noWork.Take();
            }
        }

        static void Accept()
        {
            var listener = new TcpListener(IPAddress.Loopback, 0);
            listener.Start();
            listener.AcceptSocket();
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }

        [DllImport("libc", EntryPoint = "syscall")]
        static extern long Gettid(long number);
    }
}
