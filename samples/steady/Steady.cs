// Does a little of everything, slowly, and checks each result.
//
//   runs until the end of standard input
//
// Four threads compute, allocate, throw and catch, take locks, await, load types and force small collections, some
// hundred times a second. The truth gives the number of operations and how many of them had a wrong result.
using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;

namespace Clrscope.Samples
{
    public static class Steady
    {
        static volatile bool stop;
        static long operations, wrong;
        static readonly object gate = new object();
        static int guarded;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static long Work(long seed)
        {
            ulong x = (ulong)seed * 0x9E3779B97F4A7C15UL + 1;
            for (int i = 0; i < 2000; i++)
            {
                x ^= x << 13; x ^= x >> 7; x ^= x << 17;
            }
            return (long)(x >> 8);
        }

        static void Check(bool right)
        {
            Interlocked.Increment(ref operations);
            if (!right) Interlocked.Increment(ref wrong);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Throw(int number)
        {
            if (number % 3 == 0) throw new InvalidOperationException("steady " + number);
            if (number % 3 == 1) throw new ArgumentException("steady");
            string nothing = null;
            GC.KeepAlive(nothing.Length);
        }

        static void Catch(int number)
        {
            int caught = 0;
            try { Throw(number); }
            catch (InvalidOperationException e) { caught = e.Message == "steady " + number ? 0 : -1; }
            catch (ArgumentException) { caught = 1; }
            catch (NullReferenceException) { caught = 2; }
            Check(caught == number % 3);
        }

        static void Allocate(int number)
        {
            var lists = new List<int[]>();
            long sum = 0;
            for (int i = 0; i < 200; i++) lists.Add(new int[] { i, number });
            foreach (int[] item in lists) sum += item[0] + item[1];
            Check(sum == 199 * 100 + 200L * number);
        }

        static void Lock()
        {
            lock (gate)
            {
                int before = guarded;
                Thread.Yield();
                guarded = before + 1;
                Check(guarded == before + 1);
            }
        }

        static async Task<long> Await(long seed)
        {
            await Task.Delay(1);
            await Task.Yield();
            return Work(seed);
        }

        static void Run(object state)
        {
            int own = (int)state;
            for (int number = 0; !stop; number++)
            {
                long seed = own * 1000003L + number % 64;
                Check(Work(seed) == Work(seed));
                Catch(number);
                Allocate(number);
                Lock();
                if (number % 8 == own) Check(Await(seed).Result == Work(seed));
                if (number % 64 == own) GC.Collect(0);
                if (number % 32 == 0)
                {
                    // Threads come and go.
                    bool ran = false;
                    var thread = new Thread(() => { ran = Work(seed) == Work(seed); Catch(number); });
                    thread.Start();
                    thread.Join();
                    Check(ran);
                }
                Thread.Sleep(10);
            }
        }

        public static int Main(string[] args)
        {
            var threads = new Thread[4];
            for (int i = 0; i < threads.Length; i++)
            {
                threads[i] = new Thread(Run) { Name = "steady " + i };
                threads[i].Start(i);
            }
            while (Interlocked.Read(ref operations) < 200) Thread.Sleep(5);
            Console.WriteLine("ready");
            Console.In.ReadToEnd();
            stop = true;
            foreach (Thread thread in threads) thread.Join();
            Console.WriteLine("{\"sample\":\"steady\",\"operations\":" + operations + ",\"wrong\":" + wrong + "}");
            return wrong == 0 ? 0 : 1;
        }
    }
}
