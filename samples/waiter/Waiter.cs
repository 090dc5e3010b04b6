// Threads that wait, each in its own way, and one that works.
//
//   --seconds N   how long to run after `ready` (default 10)
//   --threads N   that many more threads that only sleep (default 0)
//
// The truth gives for each thread its name, its number in the kernel, the class of its wait, and the method that waits;
// and the longest time since `ready` for which the thread that works did not (`longest_gap_ns`).
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Clrscope.Samples
{
    public static class Waiter
    {
        static readonly object gate = new object();
        static readonly ManualResetEvent handle = new ManualResetEvent(false);
        static readonly SemaphoreSlim semaphore = new SemaphoreSlim(0);
        static readonly TaskCompletionSource<int> never = new TaskCompletionSource<int>();
        static readonly List<string> truths = new List<string>();
        static volatile bool stopping;
        static Socket reader;
        public static long Sink;

        static int Main(string[] args)
        {
            double seconds = Number(args, "--seconds", 10);
            int extra = (int)Number(args, "--threads", 0);
            var listener = new TcpListener(IPAddress.Loopback, 0);
            listener.Start();
            var client = new TcpClient();
            client.Connect(IPAddress.Loopback, ((IPEndPoint)listener.LocalEndpoint).Port);
            reader = listener.AcceptSocket();

            Thread sleeper = Start("sleeper", "sleep", "Sleep", Sleep);
            Start("lock-holder", "sleep", "HoldLock", HoldLock);
            lock (handle)
            {
                // Until the holder has the lock, so that the next thread surely waits for it.
                while (!held)
                {
                    Monitor.Wait(handle, 10);
                }
            }
            Start("lock-waiter", "lock", "WaitForLock", WaitForLock);
            Start("event-waiter", "event", "WaitForEvent", WaitForEvent);
            Start("semaphore-waiter", "event", "WaitForSemaphore", WaitForSemaphore);
            Start("task-waiter", "task", "WaitForTask", WaitForTask);
            Start("socket-reader", "io", "ReadSocket", ReadSocket);
            Start("worker", "running", "Work", Work);
            joined = sleeper;
            Start("joiner", "join", "Join", Join);
            for (int i = 0; i < extra; i++)
            {
                Start("extra-" + i, "sleep", "Sleep", Sleep);
            }
            // Threads of the pool that did something once and idle now.
            // Not disposed of: the last of them may still be in its wait when this thread goes on.
            var started = new CountdownEvent(3);
            for (int i = 0; i < 3; i++)
            {
                ThreadPool.QueueUserWorkItem(_ => { started.Signal(); started.Wait(2000); });
            }
            started.Wait(5000);
            Thread.Sleep(500);
            measuring = true;
            Console.WriteLine("ready");
            Thread.Sleep(TimeSpan.FromSeconds(seconds));
            stopping = true;
            string joinedTruths;
            lock (truths)
            {
                joinedTruths = string.Join(",", truths);
            }
            Console.WriteLine("{\"sample\":\"waiter\",\"threads\":{" + joinedTruths + "},\"longest_gap_ns\":"
                + (long)(Interlocked.Read(ref longest) * (1e9 / Stopwatch.Frequency)) + "}");
            client.Close();
            return 0;
        }

        static volatile bool held, measuring;
        static long longest;
        static Thread joined;

        static Thread Start(string name, string waits, string method, Action body)
        {
            var known = new ManualResetEventSlim();
            var thread = new Thread(() =>
            {
                lock (truths)
                {
                    truths.Add(string.Format(
                        "\"{0}\":{{\"tid\":{1},\"class\":\"{2}\",\"method\":\"Clrscope.Samples.Waiter.{3}\"}}",
                        name, KernelThread.Id(), waits, method));
                }
                known.Set();
                body();
            });
            thread.Name = name;
            thread.IsBackground = true;
            thread.Start();
            known.Wait();
            return thread;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Sleep()
        {
            Thread.Sleep(Timeout.Infinite);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void HoldLock()
        {
            lock (gate)
            {
                held = true;
                Thread.Sleep(Timeout.Infinite);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitForLock()
        {
            lock (gate)
            {
                Sink++;
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitForEvent()
        {
            handle.WaitOne();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitForSemaphore()
        {
            semaphore.Wait();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitForTask()
        {
            never.Task.Wait();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void ReadSocket()
        {
            try
            {
                reader.Receive(new byte[16]);
            }
            catch (SocketException)
            {
                // The other end is gone: the program ends.
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Join()
        {
            joined.Join();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Work()
        {
            long x = 1, last = Stopwatch.GetTimestamp();
            while (!stopping)
            {
                long now = Stopwatch.GetTimestamp();
                if (measuring && now - last > longest)
                {
                    Interlocked.Exchange(ref longest, now - last);
                }
                last = now;
                for (int i = 0; i < 100000; i++)
                {
                    x = x * 6364136223846793005L + 1442695040888963407L;
                }
            }
            Sink = x;
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }

    static class KernelThread
    {
        [DllImport("libc", EntryPoint = "syscall")]
        static extern IntPtr Call(IntPtr number);

        /// The kernel's number of the calling thread: gettid is 186 on x86-64 and 178 on arm64.
        public static long Id()
        {
            bool arm = RuntimeInformation.ProcessArchitecture == Architecture.Arm64;
            return Call(new IntPtr(arm ? 178 : 186)).ToInt64();
        }
    }
}
