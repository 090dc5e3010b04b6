// Writes one line and ends: for benchmarks of what recording adds to the start and the end of a
// program.
using System;

namespace Clrscope.Samples
{
    public static class Hello
    {
        static int Main(string[] args)
        {
            Console.WriteLine("ready");
            return 0;
        }
    }
}
