// Threads that block each other, and know how.
//
//   --monitor N   N threads in a ring, each with one monitor and wanting that of the next: a deadlock
//   --lock N      the same with System.Threading.Lock, where the runtime has it (.NET 9)
//   --healthy N   the same threads and monitors, but taken in one order: busy, contended, and never stuck
//   --chain N     N threads that wait for each other in a row; the one at its end sleeps
//   --orphan      a thread took a monitor and ended; another one wants it
//   --timed       a ring of two whose waits end by themselves, over and over
//   --semaphore, --task, --event, --slim, --rwlock, --join   a thread that waits for what will not come
//   --thin N      N threads with a monitor that nobody else wants
//
// Modes go together. After `ready` comes the truth, and the program stays as it is until its standard input ends. It then
// ends at once, with its threads as they are.
using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Clrscope.Samples
{
    /// What the monitors of the ring belong to.
    public sealed class Account
    {
        public readonly int Number;
        public Account(int number) { Number = number; }
    }

    public static class Deadlock
    {
        static readonly List<string> truths = new List<string>();
        static readonly SemaphoreSlim semaphore = new SemaphoreSlim(0);
        static readonly TaskCompletionSource<int> never = new TaskCompletionSource<int>();
        static readonly ManualResetEvent kernelEvent = new ManualResetEvent(false);
        static readonly ManualResetEventSlim slimEvent = new ManualResetEventSlim();
        static readonly ReaderWriterLockSlim readerWriter = new ReaderWriterLockSlim();
        public static long Sink;

        static int Main(string[] args)
        {
            Ring(Number(args, "--monitor"));
            if (!LockRing(Number(args, "--lock")))
            {
                Console.WriteLine("{\"sample\":\"deadlock\",\"missing\":\"System.Threading.Lock\"}");
                return 3;
            }
            Healthy(Number(args, "--healthy"));
            Chain(Number(args, "--chain"));
            Thin(Number(args, "--thin"));
            if (args.Contains("--orphan"))
            {
                Orphan();
            }
            if (args.Contains("--timed"))
            {
                Timed();
            }
            Single(args, "--semaphore", WaitForSemaphore);
            Single(args, "--task", WaitForTask);
            Single(args, "--event", WaitForEvent);
            Single(args, "--slim", WaitForSlim);
            Single(args, "--join", JoinForever);
            if (args.Contains("--rwlock"))
            {
                var held = new ManualResetEvent(false);
                Start("rwlock-writer", "SleepForever", () =>
                {
                    readerWriter.EnterWriteLock();
                    held.Set();
                    SleepForever();
                });
                held.WaitOne();
                Start("rwlock-reader", "WaitForReaderWriter", WaitForReaderWriter);
            }
            // Until all of them stand where they will stand.
            Thread.Sleep(700);
            Console.WriteLine("ready");
            lock (truths)
            {
                Console.WriteLine("{\"sample\":\"deadlock\",\"threads\":{" + string.Join(",", truths) + "}}");
            }
            while (Console.ReadLine() != null)
            {
            }
            // In an orderly end, the runtime would not mind either; this one leaves no doubt.
            KernelThread.Leave();
            return 0;
        }

        // ---- rings ----

        static void Ring(int count)
        {
            var locks = Enumerable.Range(0, count).Select(index => new Account(index)).ToArray();
            var all = new CountdownEvent(Math.Max(count, 1));
            for (int i = 0; i < count; i++)
            {
                int own = i;
                Start("ring-" + i, "TakeSecond", () => TakeFirst(locks[own], locks[(own + 1) % count], all), own, (own + 1) % count);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void TakeFirst(Account own, Account next, CountdownEvent all)
        {
            lock (own)
            {
                all.Signal();
                all.WaitHandle.WaitOne();
                TakeSecond(next);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void TakeSecond(Account next)
        {
            lock (next)
            {
                Sink += next.Number;
            }
        }

        /// By reflection: what this is compiled against does not know the type.
        static bool LockRing(int count)
        {
            Type type = typeof(object).Assembly.GetType("System.Threading.Lock");
            if (count == 0)
            {
                return true;
            }
            if (type == null)
            {
                return false;
            }
            MethodInfo enter = type.GetMethod("Enter");
            var locks = Enumerable.Range(0, count)
                .Select(_ => (Action)Delegate.CreateDelegate(typeof(Action), Activator.CreateInstance(type), enter)).ToArray();
            var all = new CountdownEvent(count);
            for (int i = 0; i < count; i++)
            {
                int own = i;
                Start("locks-" + i, "EnterSecond", () => EnterFirst(locks[own], locks[(own + 1) % count], all), own, (own + 1) % count);
            }
            return true;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void EnterFirst(Action own, Action next, CountdownEvent all)
        {
            own();
            all.Signal();
            all.WaitHandle.WaitOne();
            EnterSecond(next);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void EnterSecond(Action next)
        {
            next();
            Sink++;
        }

        static void Healthy(int count)
        {
            var locks = Enumerable.Range(0, count).Select(index => new Account(index)).ToArray();
            for (int i = 0; i < count; i++)
            {
                int low = Math.Min(i, (i + 1) % count);
                int high = Math.Max(i, (i + 1) % count);
                Start("healthy-" + i, "TakeInOrder", () =>
                {
                    while (true)
                    {
                        TakeInOrder(locks[low], locks[high]);
                    }
                });
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void TakeInOrder(Account low, Account high)
        {
            lock (low)
            {
                Thread.Sleep(1);
                lock (high)
                {
                    Thread.Sleep(1);
                    Sink++;
                }
            }
        }

        static void Timed()
        {
            var one = new Account(1);
            var other = new Account(2);
            var all = new CountdownEvent(2);
            Start("timed-0", "TryBoth", () => TryBoth(one, other, all));
            Start("timed-1", "TryBoth", () => TryBoth(other, one, all));
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void TryBoth(Account own, Account next, CountdownEvent all)
        {
            lock (own)
            {
                all.Signal();
                all.WaitHandle.WaitOne();
                while (!Monitor.TryEnter(next, 60000))
                {
                    Sink++;
                }
            }
        }

        // ---- rows ----

        static void Chain(int count)
        {
            Account before = null;
            for (int i = 0; i < count; i++)
            {
                var own = new Account(i);
                Account wanted = before;
                var held = new ManualResetEvent(false);
                Start("chain-" + i, i == 0 ? "SleepForever" : "TakeSecond", () =>
                {
                    lock (own)
                    {
                        held.Set();
                        if (wanted == null)
                        {
                            SleepForever();
                        }
                        TakeSecond(wanted);
                    }
                });
                held.WaitOne();
                before = own;
            }
        }

        static void Orphan()
        {
            var left = new Account(-1);
            // Its truth stays: the thread is to be named by nobody, as it is gone.
            var thread = new Thread(() => Monitor.Enter(left)) { Name = "orphan-owner" };
            thread.Start();
            thread.Join();
            Start("orphan-waiter", "TakeSecond", () => TakeSecond(left));
        }

        static void Thin(int count)
        {
            for (int i = 0; i < count; i++)
            {
                var own = new Account(i);
                var held = new ManualResetEvent(false);
                Start("thin-" + i, "SleepForever", () =>
                {
                    lock (own)
                    {
                        held.Set();
                        SleepForever();
                    }
                });
                held.WaitOne();
            }
        }

        // ---- waits that are no monitors ----

        static void Single(string[] args, string mode, Action wait)
        {
            if (args.Contains(mode))
            {
                Start(mode.Substring(2) + "-waiter", wait.Method.Name, wait);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitForSemaphore()
        {
            semaphore.Wait();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitForTask()
        {
            Sink += never.Task.Result;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitForEvent()
        {
            kernelEvent.WaitOne();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitForSlim()
        {
            slimEvent.Wait();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitForReaderWriter()
        {
            readerWriter.EnterReadLock();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void JoinForever()
        {
            Start("joined", "SleepForever", SleepForever).Join();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void SleepForever()
        {
            Thread.Sleep(Timeout.Infinite);
        }

        // ---- plumbing ----

        static Thread Start(string name, string method, Action body, int holds = -1, int wants = -1)
        {
            var known = new ManualResetEvent(false);
            var thread = new Thread(() =>
            {
                lock (truths)
                {
                    truths.Add(string.Format(
                        "\"{0}\":{{\"tid\":{1},\"managed_id\":{2},\"method\":\"{3}\",\"holds\":{4},\"wants\":{5}}}",
                        name, KernelThread.Id(), Thread.CurrentThread.ManagedThreadId, method, holds, wants));
                }
                known.Set();
                body();
            });
            thread.Name = name;
            thread.IsBackground = true;
            thread.Start();
            known.WaitOne();
            return thread;
        }

        /// What stands behind a mode; 0 without the mode, 2 without a number.
        static int Number(string[] args, string name)
        {
            int at = Array.IndexOf(args, name);
            int number;
            return at < 0 ? 0 : at + 1 < args.Length && int.TryParse(args[at + 1], out number) ? number : 2;
        }
    }

    static class KernelThread
    {
        [DllImport("libc", EntryPoint = "syscall")]
        static extern IntPtr Call(IntPtr number);

        [DllImport("libc", EntryPoint = "_exit")]
        static extern void Exit(int code);

        public static void Leave()
        {
            Exit(0);
        }

        /// The kernel's number of the calling thread: gettid is 186 on x86-64 and 178 on arm64.
        public static long Id()
        {
            bool arm = RuntimeInformation.ProcessArchitecture == Architecture.Arm64;
            return Call(new IntPtr(arm ? 178 : 186)).ToInt64();
        }
    }
}
