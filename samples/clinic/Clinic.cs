// A small web service that is well, with a switch for each illness that a check-up should find.
//
//   --ill A,B,…       the illnesses (default: none)
//   --seconds N       how long to run (default 60)
//   --list            print the names of all illnesses, and end
//
// The service answers requests over HTTP, twenty each second, from a client thread of its own: that is what a healthy
// process does here. Each illness is one class below, with the method that is to blame in it.
//
// At the end, what is true: {"sample":"clinic","requests":N,"asked":N,"ask_p50_ns":T,"illnesses":{"<name>":{"culprit":"<part of a name>", …}}}.
// It is printed before `ready` too, on a line that begins with `truth `: a sick process may never come to its end.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Clinic
{
    /// What makes a process ill.
    abstract class Illness
    {
        /// Begins, and returns.
        public abstract void Begin();

        /// Part of the name that is to blame: a method, a type or a thread; null where it is nobody in particular.
        public abstract string Culprit { get; }

        /// A thread that runs for as long as the process.
        protected static Thread Forever(string name, ThreadStart body)
        {
            var thread = new Thread(body) { IsBackground = true, Name = name };
            thread.Start();
            return thread;
        }

        /// Does something so many times a second.
        protected static void Often(string name, double perSecond, Action what)
        {
            Forever(name, () =>
            {
                var clock = Stopwatch.StartNew();
                for (long done = 0; ; done++)
                {
                    while (clock.Elapsed.TotalSeconds * perSecond < done)
                    {
                        Thread.Sleep(1);
                    }
                    what();
                }
            });
        }
    }

    /// One method takes most of a processor.
    sealed class HotSpot : Illness
    {
        static ulong sink;

        public override string Culprit => "HotSpot.Digest";

        public override void Begin() => Often("digester", 16, Digest);

        // About 50 ms each time.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Digest()
        {
            var clock = Stopwatch.StartNew();
            ulong hash = 14695981039346656037;
            while (clock.ElapsedMilliseconds < 50)
            {
                for (uint i = 0; i < 100000; i++)
                {
                    hash = (hash ^ i) * 1099511628211;
                }
            }
            sink = hash;
        }
    }

    /// Objects live just long enough to be dear to the collector.
    sealed class Churn : Illness
    {
        sealed class Line
        {
            public object Before;
            public long Number;
        }

        static readonly Line[] Window = new Line[1 << 20];

        public override string Culprit => null;

        public override void Begin() => Forever("churner", Allocate);

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Allocate()
        {
            for (long i = 0; ; i++)
            {
                Window[i & (Window.Length - 1)] = new Line { Number = i, Before = new byte[16] };
            }
        }
    }

    /// The program asks for collections.
    sealed class Collector : Illness
    {
        public override string Culprit => "Collector.CollectAgain";

        public override void Begin() => Often("collector", 4, CollectAgain);

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void CollectAgain() => GC.Collect();
    }

    /// Orders are kept for ever.
    sealed class Leak : Illness
    {
        sealed class LeakedOrder
        {
            public int Number;
            public readonly byte[] Body = new byte[400];
        }

        static readonly List<LeakedOrder> Orders = new List<LeakedOrder>();

        public override string Culprit => "LeakedOrder";

        public override void Begin() => Often("orders", 2000, Keep);

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Keep() => Orders.Add(new LeakedOrder { Number = Orders.Count });
    }

    /// The same few texts, again and again.
    sealed class Duplicates : Illness
    {
        static readonly List<string> Texts = new List<string>();

        public override string Culprit => "Germany, Federal Republic of";

        public override void Begin()
        {
            for (int i = 0; i < 200000; i++)
            {
                Texts.Add(new string("Germany, Federal Republic of".ToCharArray()));
            }
        }
    }

    /// Exceptions where a test would do.
    sealed class Storm : Illness
    {
        public override string Culprit => "Storm.Parse";

        public override void Begin() => Often("parser", 1000, () =>
        {
            try
            {
                Parse("n/a");
            }
            catch (InvalidOperationException)
            {
            }
        });

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Parse(string text)
        {
            if (text.Length != 1)
            {
                throw new InvalidOperationException("not a digit: " + text);
            }
            return text[0] - '0';
        }
    }

    /// One lock for all.
    sealed class HotLock : Illness
    {
        static readonly object Stock = new object();

        public override string Culprit => "HotLock.Reserve";

        public override void Begin()
        {
            for (int i = 0; i < 3; i++)
            {
                Often("seller-" + i, 50, Reserve);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Reserve()
        {
            lock (Stock)
            {
                Thread.Sleep(12);
            }
        }
    }

    /// Two threads, two locks, two orders.
    sealed class Deadlock : Illness
    {
        sealed class Account
        {
        }

        static readonly Account Left = new Account();
        static readonly Account Right = new Account();

        public override string Culprit => "transfer-left";

        public override void Begin()
        {
            var both = new Barrier(2);
            Forever("transfer-left", () => Transfer(Left, Right, both));
            Forever("transfer-right", () => Transfer(Right, Left, both));
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Transfer(Account from, Account to, Barrier both)
        {
            lock (from)
            {
                both.SignalAndWait();
                lock (to)
                {
                }
            }
        }
    }

    /// Threads of their own that block on tasks.
    sealed class SyncOverAsync : Illness
    {
        public override string Culprit => "SyncOverAsync.Price";

        public override void Begin()
        {
            for (int i = 0; i < 6; i++)
            {
                Forever("pricer-" + i, () =>
                {
                    while (true)
                    {
                        Price();
                    }
                });
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Price() => Ask().Result;

        static async Task<int> Ask()
        {
            await Task.Delay(300).ConfigureAwait(false);
            return 1;
        }
    }

    /// Work of the pool that sleeps.
    sealed class Starvation : Illness
    {
        public override string Culprit => "Starvation.Work";

        public override void Begin() => Often("starver", 100, () => ThreadPool.QueueUserWorkItem(_ => Work()));

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Work() => Thread.Sleep(1500);
    }

    /// Tasks that nobody will complete.
    sealed class StuckTasks : Illness
    {
        static readonly List<Task> Waiting = new List<Task>();
        static readonly TaskCompletionSource<int> Never = new TaskCompletionSource<int>();

        public override string Culprit => "AwaitReply";

        public override void Begin()
        {
            for (int i = 0; i < 100; i++)
            {
                Waiting.Add(Handle());
            }
        }

        static async Task<int> Handle() => await AwaitReply() + 1;

        static async Task<int> AwaitReply() => await Never.Task;
    }

    /// Threads that wait for what never comes.
    sealed class Zombies : Illness
    {
        public override string Culprit => "Zombies.WaitForReply";

        public override void Begin()
        {
            for (int i = 0; i < 3; i++)
            {
                Forever("zombie-" + i, WaitForReply);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void WaitForReply() => new ManualResetEvent(false).WaitOne();
    }

    /// A thread for each request, none of which ends.
    sealed class ThreadLeak : Illness
    {
        public override string Culprit => "ThreadLeak.StartOne";

        public override void Begin() => Often("starter", 4, StartOne);

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void StartOne() => new Thread(() => Thread.Sleep(Timeout.Infinite)) { IsBackground = true, Name = "leaked" }.Start();
    }

    /// Timers that nobody stops.
    sealed class TimerLeak : Illness
    {
        static readonly List<Timer> Timers = new List<Timer>();

        public override string Culprit => "System.Threading.TimerQueueTimer";

        public override void Begin() => Often("timers", 300, StartOne);

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void StartOne() => Timers.Add(new Timer(Tick, null, 60000, 60000));

        static void Tick(object state)
        {
        }
    }

    /// Finalizers that take longer than the objects take to come.
    sealed class Finalizers : Illness
    {
        sealed class SlowHandle
        {
            ~SlowHandle()
            {
                Thread.Sleep(20);
            }
        }

        public override string Culprit => "SlowHandle";

        public override void Begin()
        {
            Often("handles", 1000, Make);
            Often("allocation", 200, () => sink = new byte[80000]);
        }

        static byte[] sink;

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Make() => new SlowHandle();
    }

    /// Code is made for each request.
    sealed class JitStorm : Illness
    {
        static int sink;

        public override string Culprit => null;

        public override void Begin() => Often("compiler", 400, CompileOne);

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void CompileOne()
        {
            var method = new DynamicMethod("Made", typeof(int), new[] { typeof(int) });
            ILGenerator il = method.GetILGenerator();
            il.Emit(OpCodes.Ldarg_0);
            il.Emit(OpCodes.Ldc_I4_1);
            il.Emit(OpCodes.Add);
            il.Emit(OpCodes.Ret);
            sink = ((Func<int, int>)method.CreateDelegate(typeof(Func<int, int>)))(sink);
        }
    }

    /// Memory that the collector does not know of.
    sealed class NativeMemory : Illness
    {
        public override string Culprit => null;

        // 8 MB a second.
        public override void Begin() => Often("native", 8, Take);

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Take()
        {
            IntPtr memory = Marshal.AllocHGlobal(1 << 20);
            for (int at = 0; at < 1 << 20; at += 4096)
            {
                Marshal.WriteByte(memory, at, 1);
            }
        }
    }

    public static class Program
    {
        static readonly Dictionary<string, Func<Illness>> Illnesses = new Dictionary<string, Func<Illness>>
        {
            ["cpu-hot-spot"] = () => new HotSpot(),
            ["gc-pressure"] = () => new Churn(),
            ["induced-gc"] = () => new Collector(),
            ["leak"] = () => new Leak(),
            ["duplicate-strings"] = () => new Duplicates(),
            ["exception-storm"] = () => new Storm(),
            ["hot-lock"] = () => new HotLock(),
            ["deadlock"] = () => new Deadlock(),
            ["sync-over-async"] = () => new SyncOverAsync(),
            ["pool-starvation"] = () => new Starvation(),
            ["stuck-task"] = () => new StuckTasks(),
            ["zombie-thread"] = () => new Zombies(),
            ["thread-leak"] = () => new ThreadLeak(),
            ["timer-leak"] = () => new TimerLeak(),
            ["finalizer-backlog"] = () => new Finalizers(),
            ["jit-storm"] = () => new JitStorm(),
            ["native-memory"] = () => new NativeMemory(),
        };

        static int Main(string[] args)
        {
            if (args.Contains("--list"))
            {
                Console.WriteLine(string.Join("\n", Illnesses.Keys));
                return 0;
            }
            string[] ill = Text(args, "--ill", "").Split(new[] { ',' }, StringSplitOptions.RemoveEmptyEntries);
            foreach (string name in ill)
            {
                if (!Illnesses.ContainsKey(name))
                {
                    Console.Error.WriteLine("clinic: there is no illness " + name + "; --list names them all");
                    return 2;
                }
            }
            var begun = ill.ToDictionary(name => name, name => Illnesses[name]());
            var service = new Service();
            service.Start();
            foreach (Illness illness in begun.Values)
            {
                illness.Begin();
            }
            // What only happens as a program starts shall be over.
            Thread.Sleep(1500);
            string truth = string.Join(",", begun.Select(pair => "\"" + pair.Key + "\":{\"culprit\":"
                + (pair.Value.Culprit == null ? "null" : "\"" + pair.Value.Culprit + "\"") + "}"));
            Console.WriteLine("truth {" + truth + "}");
            Console.WriteLine("ready");
            Thread.Sleep(TimeSpan.FromSeconds(double.Parse(Text(args, "--seconds", "60"), CultureInfo.InvariantCulture)));
            Console.WriteLine("{\"sample\":\"clinic\",\"requests\":" + service.Served + "," + service.Asked() + ",\"illnesses\":{" + truth + "}}");
            return 0;
        }

        static string Text(string[] args, string name, string otherwise)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? args[at + 1] : otherwise;
        }
    }

    /// The part that is well.
    sealed class Service
    {
        // HttpListener would want OpenSSL of a certain age.
        readonly TcpListener listener = new TcpListener(IPAddress.Loopback, 0);
        readonly List<long> times = new List<long>();
        int served;

        public int Served => Volatile.Read(ref served);

        public void Start()
        {
            listener.Start();
            Accept();
            var client = new Thread(Ask) { IsBackground = true, Name = "client" };
            client.Start();
        }

        async void Accept()
        {
            while (true)
            {
                Serve(await listener.AcceptTcpClientAsync().ConfigureAwait(false));
            }
        }

        async void Serve(TcpClient client)
        {
            using (client)
            {
                NetworkStream stream = client.GetStream();
                var buffer = new byte[4096];
                int read = 0;
                while (Encoding.ASCII.GetString(buffer, 0, read).IndexOf("\r\n\r\n", StringComparison.Ordinal) < 0)
                {
                    int more = await stream.ReadAsync(buffer, read, buffer.Length - read).ConfigureAwait(false);
                    if (more == 0)
                    {
                        return;
                    }
                    read += more;
                }
                string body = "order " + Interlocked.Increment(ref served).ToString(CultureInfo.InvariantCulture);
                byte[] answer = Encoding.ASCII.GetBytes("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + body.Length + "\r\n\r\n" + body);
                await stream.WriteAsync(answer, 0, answer.Length).ConfigureAwait(false);
            }
        }

        void Ask()
        {
            int port = ((IPEndPoint)listener.LocalEndpoint).Port;
            byte[] request = Encoding.ASCII.GetBytes("GET /order HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            var buffer = new byte[4096];
            while (true)
            {
                long begun = Stopwatch.GetTimestamp();
                AskOnce(port, request, buffer);
                long took = Stopwatch.GetTimestamp() - begun;
                lock (times)
                {
                    times.Add(took);
                }
                Thread.Sleep(50);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void AskOnce(int port, byte[] request, byte[] buffer)
        {
            using (var client = new TcpClient())
            {
                client.Connect(IPAddress.Loopback, port);
                NetworkStream stream = client.GetStream();
                stream.Write(request, 0, request.Length);
                while (stream.Read(buffer, 0, buffer.Length) > 0)
                {
                }
            }
        }

        /// How many requests the client has made, and how long the middle one of them took, in nanoseconds.
        public string Asked()
        {
            lock (times)
            {
                long[] sorted = times.OrderBy(time => time).ToArray();
                long middle = sorted.Length == 0 ? 0 : sorted[sorted.Length / 2];
                return "\"asked\":" + sorted.Length + ",\"ask_p50_ns\":" + (long)(middle * 1e9 / Stopwatch.Frequency);
            }
        }
    }
}
