// A small web service with the illnesses that a profiler should find, and the load to show them.
//
//   --port N          where to listen on the loopback interface (default: any free port)
//   --seconds N       how long to run (default 60)
//   --load N          start a second process of this program that keeps N requests under way all the time
//   --client PORT     be that second process
//
// What is wrong here, on purpose:
//   /report     builds its answer with string concatenation in a loop: allocation churn, garbage collections
//   /search     tries every product against a slow pattern: a hot CPU path
//   /order      parses with exceptions as control flow: five out of six fields are not numbers
//   /stock      one global lock, held over a sleep: requests queue up behind each other
//   /price      waits for an asynchronous call with .Result: threads of the pool wait instead of work
//   /health     is well
using System;
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace SickService
{
    public static class Program
    {
        static int Main(string[] args)
        {
            double seconds = Number(args, "--seconds", 60);
            int client = (int)Number(args, "--client", 0);
            int load = (int)Number(args, "--load", 0);
            if (client > 0)
            {
                return LoadGenerator.Run(client, load, seconds);
            }
            var server = new Server((int)Number(args, "--port", 0));
            server.Start();
            Console.WriteLine("listening on http://127.0.0.1:" + server.Port + "/");
            Process generator = load > 0 ? StartLoad(server.Port, load, seconds) : null;
            Thread.Sleep(1500);
            Console.WriteLine("ready");
            Thread.Sleep(TimeSpan.FromSeconds(seconds));
            if (generator != null)
            {
                generator.Kill();
            }
            Console.WriteLine("{\"sample\":\"sickservice\",\"requests\":{"
                + string.Join(",", server.Served.OrderBy(pair => pair.Key).Select(pair => "\"" + pair.Key + "\":" + pair.Value)) + "}}");
            return 0;
        }

        /// The same program once more, in the same way as this one was started.
        static Process StartLoad(int port, int load, double seconds)
        {
            string arguments = string.Format(CultureInfo.InvariantCulture, "--client {0} --load {1} --seconds {2}", port, load, seconds + 5);
            string host = Process.GetCurrentProcess().MainModule.FileName;
            var start = new ProcessStartInfo(host) { UseShellExecute = false, RedirectStandardOutput = true };
            if (Environment.GetEnvironmentVariable("CLRSCOPE_SAMPLE") != null)
            {
                start.Environment["CLRSCOPE_SAMPLE_ARGUMENTS"] = arguments.Replace(' ', '\u001f');
            }
            else
            {
                start.Arguments = "\"" + typeof(Program).Assembly.Location + "\" " + arguments;
            }
            // A profiler that was launched with this program is not meant for the load generator.
            foreach (string name in new[] { "CORECLR_ENABLE_PROFILING", "DOTNET_DiagnosticPorts" })
            {
                start.Environment.Remove(name);
            }
            return Process.Start(start);
        }

        internal static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }

    /// Reads one request per connection and answers it on a thread of the pool.
    public sealed class Server
    {
        readonly TcpListener listener;
        readonly Catalogue catalogue = new Catalogue();
        public readonly ConcurrentDictionary<string, long> Served = new ConcurrentDictionary<string, long>();

        public Server(int port)
        {
            listener = new TcpListener(IPAddress.Loopback, port);
        }

        public int Port { get { return ((IPEndPoint)listener.LocalEndpoint).Port; } }

        public void Start()
        {
            listener.Start(256);
            new Thread(Accept) { Name = "http-accept", IsBackground = true }.Start();
        }

        void Accept()
        {
            while (true)
            {
                TcpClient connection = listener.AcceptTcpClient();
                Task.Run(() => Handle(connection));
            }
        }

        async Task Handle(TcpClient connection)
        {
            try
            {
                using (connection)
                using (NetworkStream stream = connection.GetStream())
                {
                    var buffer = new byte[4096];
                    int count = await stream.ReadAsync(buffer, 0, buffer.Length);
                    string[] words = Encoding.ASCII.GetString(buffer, 0, count).Split(' ');
                    string path = words.Length > 1 ? words[1] : "/";
                    string body = Route(path);
                    Served.AddOrUpdate(path, 1, (_, old) => old + 1);
                    string head = "HTTP/1.1 " + (body == null ? "404 Not Found" : "200 OK") + "\r\nContent-Type: text/plain\r\n"
                        + "Connection: close\r\nContent-Length: " + (body ?? "").Length + "\r\n\r\n";
                    byte[] answer = Encoding.ASCII.GetBytes(head + body);
                    await stream.WriteAsync(answer, 0, answer.Length);
                }
            }
            catch (IOException)
            {
                // The client went away.
            }
        }

        string Route(string path)
        {
            switch (path)
            {
                case "/report": return Reports.Build(400);
                case "/search": return catalogue.Search("*a*e*i*").ToString(CultureInfo.InvariantCulture);
                case "/order": return Orders.Total("12;n/a;-;none;?;unknown").ToString(CultureInfo.InvariantCulture);
                case "/stock": return Stock.Take().ToString(CultureInfo.InvariantCulture);
                case "/price": return Prices.Of("tea").ToString(CultureInfo.InvariantCulture);
                case "/health": return "ok";
                default: return null;
            }
        }
    }

    public static class Reports
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static string Build(int lines)
        {
            string text = "";
            for (int i = 0; i < lines; i++)
            {
                text += "line " + i + ": " + (i * 37 % 101) + "\n";
            }
            return text;
        }
    }

    public sealed class Catalogue
    {
        readonly string[] products = Enumerable.Range(0, 15000).Select(i => "product " + i + " of the beige pattern series " + (i * 7919)).ToArray();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public int Search(string pattern)
        {
            return products.Count(product => Matches(pattern, 0, product, 0));
        }

        /// Backtracks over every star.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static bool Matches(string pattern, int p, string text, int t)
        {
            if (p == pattern.Length)
            {
                return t == text.Length;
            }
            if (pattern[p] == '*')
            {
                for (int next = t; next <= text.Length; next++)
                {
                    if (Matches(pattern, p + 1, text, next))
                    {
                        return true;
                    }
                }
                return false;
            }
            return t < text.Length && text[t] == pattern[p] && Matches(pattern, p + 1, text, t + 1);
        }
    }

    public static class Orders
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int Total(string fields)
        {
            int total = 0;
            foreach (string field in fields.Split(';'))
            {
                try
                {
                    total += int.Parse(field, CultureInfo.InvariantCulture);
                }
                catch (FormatException)
                {
                    // Not a number: does not count.
                }
            }
            return total;
        }
    }

    public static class Stock
    {
        static readonly object everything = new object();
        static int left = 1000000;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int Take()
        {
            lock (everything)
            {
                Thread.Sleep(4);
                return --left;
            }
        }
    }

    public static class Prices
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int Of(string product)
        {
            return Ask(product).Result;
        }

        static async Task<int> Ask(string product)
        {
            await Task.Delay(8);
            return product.Length;
        }
    }

    /// Keeps a number of requests under way, spread over the endpoints.
    static class LoadGenerator
    {
        static readonly string[] paths = { "/search", "/order", "/report", "/stock", "/price", "/health" };

        public static int Run(int port, int load, double seconds)
        {
            var clock = Stopwatch.StartNew();
            var threads = Enumerable.Range(0, Math.Max(load, 1)).Select(i => new Thread(() =>
            {
                for (int n = i; clock.Elapsed.TotalSeconds < seconds; n++)
                {
                    if (!Request(port, paths[n % paths.Length]))
                    {
                        return;
                    }
                }
            })).ToList();
            threads.ForEach(thread => thread.Start());
            threads.ForEach(thread => thread.Join());
            return 0;
        }

        static bool Request(int port, string path)
        {
            try
            {
                using (var client = new TcpClient())
                {
                    client.Connect(IPAddress.Loopback, port);
                    NetworkStream stream = client.GetStream();
                    byte[] request = Encoding.ASCII.GetBytes("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
                    stream.Write(request, 0, request.Length);
                    var buffer = new byte[16384];
                    while (stream.Read(buffer, 0, buffer.Length) > 0)
                    {
                    }
                }
                return true;
            }
            catch (Exception e) when (e is SocketException || e is IOException)
            {
                // The service has ended, and so does its load.
                return false;
            }
        }
    }
}
