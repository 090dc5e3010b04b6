// A program that notices when a profiler takes what belongs to it: file descriptors, signal handlers, alternate stacks.
//
//   --threads N   threads that only wait
//   --churn N     threads that are started in each second; each works for a moment and ends
//   --files       opens a file every 5 ms, and counts how often that fails
//   --nullref N   threads that throw for a null reference in a loop
//   --foreign N   threads that are made by native code in each second, with an alternate stack on the heap, and enter the runtime
//   --burn N      threads that use a processor without end
//
// It reads commands, one in each line of standard input, and answers each with a line:
//   take      sets a handler of its own for SIGPROF       -> taken
//   chain     the same, and the handler calls the one that was there before -> taken
//   raise     sends SIGPROF to itself                     -> raised
//   handler   whose handler is set                        -> own, or none, or other
//   keys N    takes all thread-local keys of the process but N -> taken, and how many
//   end       (or the end of input) ends                  -> the truth, one line of JSON
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Clrscope.Samples
{
    public static class Tenant
    {
        const int SIGPROF = 27;
        const int SIGNAL_SIZE = 152;
        const int STACK = 64 * 1024;

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        delegate void Enter(IntPtr argument);

        [DllImport("libc", EntryPoint = "sigaction")]
        static extern int SigAction(int signal, IntPtr now, IntPtr before);

        [DllImport("libc", EntryPoint = "raise")]
        static extern int Raise(int signal);

        [DllImport("libc", EntryPoint = "mmap")]
        static extern IntPtr Map(IntPtr address, IntPtr length, int protection, int flags, int file, IntPtr offset);

        [DllImport("libpthread.so.0", EntryPoint = "pthread_create")]
        static extern int CreateThread(out IntPtr thread, IntPtr attributes, IntPtr start, IntPtr argument);

        [DllImport("libpthread.so.0", EntryPoint = "pthread_join")]
        static extern int JoinThread(IntPtr thread, IntPtr result);

        [DllImport("libdl.so.2", EntryPoint = "dlsym")]
        static extern IntPtr Symbol(IntPtr library, string name);

        [DllImport("libpthread.so.0", EntryPoint = "pthread_key_create")]
        static extern int CreateKey(out uint key, IntPtr destructor);

        [DllImport("libpthread.so.0", EntryPoint = "pthread_key_delete")]
        static extern int DeleteKey(uint key);

        static volatile bool stopping;
        static object nothing = null;
        static long sink, churned, opened, failedFiles, nullrefs, foreign, changed;
        static IntPtr handler, code, before;
        static Enter entered;

        static int Main(string[] args)
        {
            int threads = Number(args, "--threads"), churn = Number(args, "--churn"), foreigns = Number(args, "--foreign");
            var gate = new ManualResetEvent(false);
            var all = new List<Thread>();
            for (int i = 0; i < threads; i++)
            {
                all.Add(Start(() => gate.WaitOne()));
            }
            for (int i = 0; i < Number(args, "--nullref"); i++)
            {
                all.Add(Start(() => { while (!stopping) { NullReference(); } }));
            }
            for (int i = 0; i < Number(args, "--burn"); i++)
            {
                all.Add(Start(() => { while (!stopping) { Interlocked.Add(ref sink, Spin(10000)); } }));
            }
            if (args.Contains("--files"))
            {
                all.Add(Start(Files));
            }
            MakeCode();
            if (churn > 0)
            {
                all.Add(Start(() => AtRate(churn, Churn)));
            }
            if (foreigns > 0)
            {
                all.Add(Start(() => AtRate(foreigns, Foreign)));
            }
            Thread.Sleep(500);
            Console.WriteLine("ready");
            for (string line = Console.In.ReadLine(); line != null && line != "end"; line = Console.In.ReadLine())
            {
                Console.WriteLine(Answer(line));
            }
            stopping = true;
            gate.Set();
            foreach (Thread thread in all)
            {
                thread.Join();
            }
            Console.WriteLine("{\"sample\":\"tenant\",\"churned\":" + churned + ",\"opened\":" + opened + ",\"failed_files\":" + failedFiles
                + ",\"nullrefs\":" + nullrefs + ",\"foreign\":" + foreign + ",\"changed\":" + changed + "}");
            return 0;
        }

        static string Answer(string command)
        {
            if (command.StartsWith("keys "))
            {
                return "taken " + TakeKeys(int.Parse(command.Substring(5), CultureInfo.InvariantCulture));
            }
            switch (command)
            {
                case "take":
                    SetHandler(handler);
                    return "taken";
                case "chain":
                    before = SetHandler(new IntPtr(code.ToInt64() + 256));
                    // The first word of the chain's data: where the handler before it is. 1 is no handler: such signals are ignored.
                    Marshal.WriteIntPtr(code, 512, before.ToInt64() == 1 ? IntPtr.Zero : before);
                    return "taken";
                case "raise":
                    Raise(SIGPROF);
                    return "raised";
                case "handler":
                    IntPtr now = GetHandler();
                    return now == handler || now.ToInt64() == code.ToInt64() + 256 ? "own" : now == IntPtr.Zero ? "none" : "other";
                default:
                    return "unknown";
            }
        }

        static int TakeKeys(int left)
        {
            var keys = new Stack<uint>();
            uint key;
            while (CreateKey(out key, IntPtr.Zero) == 0)
            {
                keys.Push(key);
            }
            int taken = keys.Count;
            for (; left > 0 && keys.Count > 0; left--)
            {
                DeleteKey(keys.Pop());
            }
            return taken;
        }

        /// Machine code for x86-64: nobody may be interrupted by managed code.
        static void MakeCode()
        {
            code = Map(IntPtr.Zero, new IntPtr(4096), 7, 0x22, -1, IntPtr.Zero);
            // A handler that does nothing: ret
            Marshal.WriteByte(code, 0xc3);
            handler = code;
            // The start of a thread: calls the third word of its argument with the first (sigaltstack), then the second with itself.
            byte[] start = { 0x53, 0x48, 0x89, 0xfb, 0x48, 0x8b, 0x3b, 0x31, 0xf6, 0xff, 0x53, 0x10, 0x48, 0x89, 0xdf, 0xff, 0x53, 0x08, 0x5b, 0xc3 };
            Marshal.Copy(start, 0, new IntPtr(code.ToInt64() + 64), start.Length);
            // A handler that jumps to the one before it, where there is one: mov rax,[rip+249]; test rax,rax; jz +2; jmp rax; ret
            byte[] chain = { 0x48, 0x8b, 0x05, 0xf9, 0x00, 0x00, 0x00, 0x48, 0x85, 0xc0, 0x74, 0x02, 0xff, 0xe0, 0xc3 };
            Marshal.Copy(chain, 0, new IntPtr(code.ToInt64() + 256), chain.Length);
            entered = argument => { Interlocked.Add(ref sink, Spin(100000)); };
        }

        static IntPtr GetHandler()
        {
            IntPtr action = Marshal.AllocHGlobal(SIGNAL_SIZE);
            SigAction(SIGPROF, IntPtr.Zero, action);
            IntPtr result = Marshal.ReadIntPtr(action);
            Marshal.FreeHGlobal(action);
            return result;
        }

        /// Sets a handler and gives the one before it, in one step: what is asked for first may be gone when the new one is set.
        static IntPtr SetHandler(IntPtr to)
        {
            IntPtr action = Marshal.AllocHGlobal(SIGNAL_SIZE), was = Marshal.AllocHGlobal(SIGNAL_SIZE);
            for (int i = 0; i < SIGNAL_SIZE; i++)
            {
                Marshal.WriteByte(action, i, 0);
            }
            Marshal.WriteIntPtr(action, to);
            // SA_SIGINFO | SA_RESTART
            Marshal.WriteInt32(action, 136, 0x10000004);
            SigAction(SIGPROF, action, was);
            IntPtr result = Marshal.ReadIntPtr(was);
            Marshal.FreeHGlobal(action);
            Marshal.FreeHGlobal(was);
            return result;
        }

        /// A thread as Go and Rust make them: with an alternate stack of its own, which lies on the heap.
        static void Foreign()
        {
            IntPtr stack = Marshal.AllocHGlobal(STACK), words = Marshal.AllocHGlobal(48);
            for (int i = 0; i < STACK; i += 8)
            {
                Marshal.WriteInt64(stack, i, 0x0123456789abcdef);
            }
            Marshal.WriteIntPtr(words, 0, new IntPtr(words.ToInt64() + 24));
            Marshal.WriteIntPtr(words, 8, Marshal.GetFunctionPointerForDelegate(entered));
            Marshal.WriteIntPtr(words, 16, Symbol(IntPtr.Zero, "sigaltstack"));
            // stack_t, whole pages of it, as the runtime likes it.
            long first = (stack.ToInt64() + 4095) & ~4095L;
            Marshal.WriteInt64(words, 24, first);
            Marshal.WriteInt64(words, 32, 0);
            Marshal.WriteInt64(words, 40, 32 * 1024);
            IntPtr thread;
            if (CreateThread(out thread, IntPtr.Zero, new IntPtr(code.ToInt64() + 64), words) == 0)
            {
                JoinThread(thread, IntPtr.Zero);
                Interlocked.Increment(ref foreign);
            }
            // Reads all of it: what was unmapped is not there.
            for (int i = 0; i < STACK; i += 8)
            {
                if (Marshal.ReadInt64(stack, i) != 0x0123456789abcdef)
                {
                    changed++;
                    break;
                }
            }
            Marshal.FreeHGlobal(words);
            Marshal.FreeHGlobal(stack);
        }

        static void Churn()
        {
            var thread = new Thread(() => Interlocked.Add(ref sink, Spin(20000)), 256 * 1024);
            thread.Start();
            thread.Join();
            Interlocked.Increment(ref churned);
        }

        static void AtRate(int rate, Action act)
        {
            var clock = System.Diagnostics.Stopwatch.StartNew();
            for (long done = 0; !stopping; done++)
            {
                double early = done * 1000.0 / rate - clock.Elapsed.TotalMilliseconds;
                if (early > 1)
                {
                    Thread.Sleep((int)early);
                }
                act();
            }
        }

        static void Files()
        {
            while (!stopping)
            {
                try
                {
                    using (File.OpenRead("/proc/self/comm"))
                    {
                        opened++;
                    }
                }
                catch (IOException)
                {
                    failedFiles++;
                }
                Thread.Sleep(5);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void NullReference()
        {
            try
            {
                nothing.GetHashCode();
            }
            catch (NullReferenceException)
            {
                Interlocked.Increment(ref nullrefs);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Spin(int rounds)
        {
            ulong x = (ulong)rounds | 1;
            for (int i = 0; i < rounds; i++)
            {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
            }
            return (long)x;
        }

        static Thread Start(Action body)
        {
            var thread = new Thread(() => body(), 256 * 1024) { IsBackground = true };
            thread.Start();
            return thread;
        }

        static int Number(string[] args, string name)
        {
            int at = Array.IndexOf(args, name);
            return at < 0 ? 0 : int.Parse(args[at + 1], CultureInfo.InvariantCulture);
        }
    }
}
