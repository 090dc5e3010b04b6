// Allocates on many threads as fast as it can, and checks what it allocated.
//
//   --threads N   how many threads allocate (default 6)
//   --bytes N     how large each array is (default 80000: the runtime tells of nearly every one)
//
// Says `pong N` to each line `ping` on standard input, where N is how many arrays there have been, and ends at the line `stop`
// or the end of input.
using System;
using System.Threading;

namespace Clrscope.Samples
{
    public static class Storm
    {
        const int Kept = 8;
        static long arrays, wrong;
        static volatile bool stop;

        static int Main(string[] args)
        {
            int threads = Number(args, "--threads", 6);
            int bytes = Number(args, "--bytes", 80000);
            var running = new Thread[threads];
            for (int i = 0; i < threads; i++)
            {
                int seed = i + 1;
                running[i] = new Thread(() => Allocate(seed, bytes));
                running[i].Start();
            }
            Console.WriteLine("ready");
            string line;
            while ((line = Console.ReadLine()) != null && line != "stop")
            {
                Console.WriteLine("pong " + Interlocked.Read(ref arrays));
            }
            stop = true;
            foreach (var thread in running)
            {
                thread.Join();
            }
            Console.WriteLine("{\"sample\":\"storm\",\"arrays\":" + arrays + ",\"wrong\":" + wrong + "}");
            return 0;
        }

        static void Allocate(int seed, int bytes)
        {
            var kept = new byte[Kept][];
            for (int i = 0; !stop; i++)
            {
                var old = kept[i % Kept];
                if (old != null && (old[0] != (byte)(seed * (i - Kept)) || old[bytes - 1] != (byte)seed))
                {
                    Interlocked.Increment(ref wrong);
                }
                var array = new byte[bytes];
                if (array[0] != 0 || array[bytes - 1] != 0)
                {
                    Interlocked.Increment(ref wrong);
                }
                array[0] = (byte)(seed * i);
                array[bytes - 1] = (byte)seed;
                kept[i % Kept] = array;
                Interlocked.Increment(ref arrays);
            }
        }

        static int Number(string[] args, string name, int otherwise)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 ? int.Parse(args[at + 1]) : otherwise;
        }
    }
}
