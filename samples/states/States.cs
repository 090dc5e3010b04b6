// Threads that know for which part of the time they were in which state.
//
//   --seconds N   how long to run after `ready`, or after the line `go` with --gate (default 10)
//   --gate        print `ready`, and begin when the line `go` comes
//   --spin N      only N threads that never stop computing
//   --compute     only a thread that computes and sleeps in turn, and one that computes, allocates, and takes no lock
//
// The truth gives for each thread its number in the kernel, its seconds in each state as it has measured them, and how
// often it changed between them, and what the kernel says of it. A thread that computes cannot tell time on a processor from time without one by the
// clock; it asks the kernel for its CPU time. No time is a multiple of the interval of a profiler's ticks: these would
// always meet the same part of it.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Clrscope.Samples
{
    public static class States
    {
        static readonly object gate = new object();
        static readonly object monitor = new object();
        static readonly AutoResetEvent gateIsHeld = new AutoResetEvent(false);
        static readonly AutoResetEvent writerIsIn = new AutoResetEvent(false);
        static readonly ReaderWriterLockSlim readers = new ReaderWriterLockSlim();
        static readonly SemaphoreSlim semaphore = new SemaphoreSlim(0);
        static readonly List<Worker> workers = new List<Worker>();
        static Socket sender, receiver;
        static volatile bool stopping;
        static volatile byte[] kept;
        public static long Sink;

        static int Main(string[] args)
        {
            double seconds = Number(args, "--seconds", 10);
            int spinning = (int)Number(args, "--spin", 0);
            if (Array.IndexOf(args, "--gate") >= 0)
            {
                Console.WriteLine("ready");
                if (Console.ReadLine() == null)
                {
                    return 1;
                }
            }
            else
            {
                Console.WriteLine("ready");
            }
            if (spinning > 0)
            {
                for (int i = 0; i < spinning; i++)
                {
                    Start("spinner-" + i, Spin);
                }
            }
            else if (Array.IndexOf(args, "--compute") >= 0)
            {
                Start("sleeper", SleepAndCompute);
                Start("no-lock", ComputeDeeply);
            }
            else
            {
                Connect();
                Start("locker", Lock);
                Start("reader-lock", ReadLock);
                Start("event", WaitForEvent);
                Start("monitor", WaitForPulse);
                Start("semaphore", WaitForSemaphore);
                Start("socket", Receive);
                Start("driver", Drive);
            }
            Thread.Sleep(TimeSpan.FromSeconds(seconds));
            stopping = true;
            foreach (Worker worker in workers)
            {
                worker.Thread.Join();
            }
            Console.WriteLine("{\"sample\":\"states\",\"threads\":{" + string.Join(",", workers.Select(worker => worker.Truth())) + "}}");
            return 0;
        }

        static void Connect()
        {
            var listener = new TcpListener(IPAddress.Loopback, 0);
            listener.Start();
            var client = new TcpClient();
            client.Connect(IPAddress.Loopback, ((IPEndPoint)listener.LocalEndpoint).Port);
            sender = client.Client;
            receiver = listener.AcceptSocket();
        }

        static void Start(string name, Action<Worker> body)
        {
            var worker = new Worker(name);
            workers.Add(worker);
            worker.Thread = new Thread(() => worker.Run(body));
            worker.Thread.Name = name;
            worker.Thread.IsBackground = true;
            worker.Thread.Start();
        }

        /// Holds both locks for a part of each round, and gives all others their signals.
        static void Drive(Worker worker)
        {
            while (!stopping)
            {
                lock (gate)
                {
                    readers.EnterWriteLock();
                    gateIsHeld.Set();
                    writerIsIn.Set();
                    Thread.Sleep(157);
                    readers.ExitWriteLock();
                }
                worker.Add("sleep");
                Thread.Sleep(41);
                Signal();
                Thread.Sleep(193);
                worker.Add("sleep");
            }
            // No thread waits for what does not come any more.
            gateIsHeld.Set();
            writerIsIn.Set();
            Signal();
        }

        static readonly AutoResetEvent signal = new AutoResetEvent(false);

        static void Signal()
        {
            signal.Set();
            semaphore.Release();
            sender.Send(new byte[1]);
            lock (monitor)
            {
                Monitor.Pulse(monitor);
            }
        }

        static void Lock(Worker worker)
        {
            while (!stopping)
            {
                gateIsHeld.WaitOne();
                worker.Add("event");
                WaitForLock();
                worker.Add("lock");
                Thread.Sleep(61);
                worker.Add("sleep");
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

        static void ReadLock(Worker worker)
        {
            while (!stopping)
            {
                writerIsIn.WaitOne();
                worker.Add("event");
                readers.EnterReadLock();
                worker.Add("lock");
                readers.ExitReadLock();
                Thread.Sleep(61);
                worker.Add("sleep");
            }
        }

        static void WaitForEvent(Worker worker)
        {
            while (!stopping)
            {
                signal.WaitOne();
                worker.Add("event");
                Thread.Sleep(149);
                worker.Add("sleep");
            }
        }

        static void WaitForPulse(Worker worker)
        {
            while (!stopping)
            {
                lock (monitor)
                {
                    // With a limit: the last pulse may come before the last wait.
                    Monitor.Wait(monitor, 2000);
                }
                worker.Add("event");
                Thread.Sleep(149);
                worker.Add("sleep");
            }
        }

        static void WaitForSemaphore(Worker worker)
        {
            while (!stopping)
            {
                semaphore.Wait();
                worker.Add("event");
                Thread.Sleep(149);
                worker.Add("sleep");
            }
        }

        static void Receive(Worker worker)
        {
            var buffer = new byte[1];
            while (!stopping)
            {
                receiver.Receive(buffer);
                worker.Add("io");
                Thread.Sleep(149);
                worker.Add("sleep");
            }
        }

        static void SleepAndCompute(Worker worker)
        {
            var watch = new Stopwatch();
            while (!stopping)
            {
                for (watch.Restart(); watch.ElapsedMilliseconds < 113;)
                {
                    Compute(1000);
                }
                worker.AddComputed();
                Thread.Sleep(283);
                worker.Add("sleep");
            }
        }

        /// Takes no lock, ever. Allocates, so that it waits inside the runtime now and then.
        static void ComputeDeeply(Worker worker)
        {
            while (!stopping)
            {
                for (int i = 0; i < 100 && !stopping; i++)
                {
                    Deep(i % 10, i);
                }
                worker.AddComputed();
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Deep(int depth, int number)
        {
            if (depth > 0)
            {
                return Deep(depth - 1, number) + 1;
            }
            kept = new byte[100 + number % 7];
            return Compute(20000) + kept.Length;
        }

        static void Spin(Worker worker)
        {
            while (!stopping)
            {
                Compute(100000);
                worker.AddComputed();
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Compute(int rounds)
        {
            long x = rounds;
            for (int i = 0; i < rounds; i++)
            {
                x = x * 6364136223846793005L + 1442695040888963407L;
            }
            return x;
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }

    /// A thread and the time it was in each state.
    sealed class Worker
    {
        readonly string name;
        readonly Dictionary<string, double> seconds = new Dictionary<string, double>();
        long tid, changes;
        long[] schedule;
        double last, lastCpu;
        string state;
        public Thread Thread;

        public Worker(string name)
        {
            this.name = name;
        }

        public void Run(Action<Worker> body)
        {
            tid = Kernel.ThreadId();
            last = Kernel.Time(Kernel.Monotonic);
            lastCpu = Kernel.Time(Kernel.ThreadCpu);
            long[] before = Kernel.Schedule(tid);
            body(this);
            schedule = Kernel.Schedule(tid).Zip(before, (now, then) => now - then).ToArray();
        }

        /// The time since the last call belongs to this state.
        public void Add(string state)
        {
            double now = Kernel.Time(Kernel.Monotonic);
            Add(state, now - last);
            last = now;
            lastCpu = Kernel.Time(Kernel.ThreadCpu);
        }

        /// The thread has computed since the last call, as far as it had a processor.
        public void AddComputed()
        {
            double now = Kernel.Time(Kernel.Monotonic), cpu = Kernel.Time(Kernel.ThreadCpu);
            double ran = Math.Min(cpu - lastCpu, now - last);
            Add("running", ran);
            seconds.TryGetValue("no-processor", out double waited);
            seconds["no-processor"] = waited + (now - last - ran);
            last = now;
            lastCpu = cpu;
        }

        void Add(string state, double more)
        {
            seconds.TryGetValue(state, out double before);
            seconds[state] = before + more;
            if (this.state != state)
            {
                changes++;
            }
            this.state = state;
        }

        public string Truth()
        {
            var times = seconds.Select(pair => "\"" + pair.Key + "\":" + pair.Value.ToString("F6", CultureInfo.InvariantCulture));
            return "\"" + name + "\":{\"tid\":" + tid + ",\"changes\":" + changes + ",\"seconds\":{" + string.Join(",", times) + "}"
                + string.Format(",\"kernel\":{{\"ran\":{0},\"waited\":{1},\"slices\":{2}}}}}", schedule[0], schedule[1], schedule[2]);
        }
    }

    static class Kernel
    {
        public const int Monotonic = 1, ThreadCpu = 3;

        [StructLayout(LayoutKind.Sequential)]
        struct Timespec
        {
            public long Seconds, Nanoseconds;
        }

        [DllImport("libc", EntryPoint = "syscall")]
        static extern IntPtr Call(IntPtr number);

        [DllImport("libc", EntryPoint = "clock_gettime")]
        static extern int GetTime(int clock, out Timespec time);

        /// The kernel's number of the calling thread: gettid is 186 on x86-64 and 178 on arm64.
        public static long ThreadId()
        {
            bool arm = RuntimeInformation.ProcessArchitecture == Architecture.Arm64;
            return Call(new IntPtr(arm ? 178 : 186)).ToInt64();
        }

        /// What the kernel says of a thread: nanoseconds on a processor, nanoseconds ready without one, and how often it ran.
        public static long[] Schedule(long tid)
        {
            string line = File.ReadAllText("/proc/self/task/" + tid + "/schedstat");
            return line.Trim().Split(' ').Select(number => long.Parse(number, CultureInfo.InvariantCulture)).ToArray();
        }

        public static double Time(int clock)
        {
            GetTime(clock, out Timespec time);
            return time.Seconds + time.Nanoseconds * 1e-9;
        }
    }
}
