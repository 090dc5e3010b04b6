// Runs method bodies that come in as bytes, and says what came out: for tests that change bodies and want to know whether
// they still do the same.
//
// Begins with one line, `tokens NAME=HEX …`: what code may call and catch. Then, for each line on its standard input,
//
//   KIND STACK LOCALS CODE CLAUSES A B C D
//
// makes KIND F(int A, long B, double C, int D) of it, calls it once, and answers with one line,
//
//   WHAT NOTES LEFT FAILED
//
// KIND is i, l, d or v, the type that is returned. LOCALS (a signature), CODE and CLAUSES (a section behind the code) are
// hexadecimal, `-` for none; C and a returned double are written as their bits. WHAT is the value, or `!` and the type of the
// exception; NOTES is a hash of what the code has told Note in which order; LEFT and FAILED are how often it called those.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Text;

namespace Clrscope.Samples
{
    public sealed class OwnException : Exception
    {
    }

    /// What code may call.
    public static class Helpers
    {
        public static ulong Notes;
        public static int Left, Failed;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Note(int value)
        {
            Notes = (Notes ^ (uint)value) * 1099511628211UL + 1;
        }

        public static void NoteLong(long value)
        {
            Notes = (Notes ^ (ulong)value) * 1099511628211UL + 2;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void NoteDouble(double value)
        {
            Notes = (Notes ^ (ulong)Bits(value)) * 1099511628211UL + 3;
        }

        public static int Mix(int a, int b)
        {
            return a * 31 + (b ^ 5);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static long Wide(long a, int b)
        {
            return a - (long)b * 3;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static double Half(double a, long b)
        {
            return a / 2 + b;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int MayThrow(int a)
        {
            if ((a & 3) == 3)
            {
                throw new OwnException();
            }
            return a ^ 5;
        }

        // What comes of a number that is too large is left open by the language of the runtime.
        public static int ToInt(double a)
        {
            return a > -2e9 && a < 2e9 ? (int)a : 77;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static long ToLong(double a)
        {
            return a > -9e18 && a < 9e18 ? (long)a : 78;
        }

        public static void Leave()
        {
            Left++;
        }

        public static void Fail()
        {
            Failed++;
        }

        /// All that are no numbers are one.
        public static long Bits(double value)
        {
            return BitConverter.DoubleToInt64Bits(double.IsNaN(value) ? double.NaN : value);
        }
    }

    public static class Differential
    {
        public delegate int ReturnsInt(int a, long b, double c, int d);
        public delegate long ReturnsLong(int a, long b, double c, int d);
        public delegate double ReturnsDouble(int a, long b, double c, int d);
        public delegate void ReturnsNothing(int a, long b, double c, int d);

        static readonly Type[] Parameters = { typeof(int), typeof(long), typeof(double), typeof(int) };
        static readonly Type[] Exceptions = { typeof(Exception), typeof(ArithmeticException), typeof(OwnException) };
        static readonly string[] Methods =
        {
            "Note", "NoteLong", "NoteDouble", "Mix", "Wide", "Half", "MayThrow", "ToInt", "ToLong", "Leave", "Fail",
        };

        static int Main(string[] args)
        {
            var output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false), 1 << 16);
            output.NewLine = "\n";
            var probe = new DynamicMethod("probe", typeof(int), Parameters, typeof(Differential).Module, true);
            var known = new StringBuilder("tokens");
            foreach (KeyValuePair<string, int> token in Tokens(probe.GetDynamicILInfo()))
            {
                known.Append(' ').Append(token.Key).Append('=').Append(token.Value.ToString("x", CultureInfo.InvariantCulture));
            }
            output.WriteLine(known.ToString());
            output.WriteLine("ready");
            output.Flush();
            var input = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false), false, 1 << 16);
            string line;
            while ((line = input.ReadLine()) != null)
            {
                // An empty line asks for all answers so far.
                if (line.Length == 0)
                {
                    output.Flush();
                    continue;
                }
                output.WriteLine(Run(line.Split(' ')));
            }
            output.Flush();
            return 0;
        }

        /// Always the same for the same kind of method, as each has a table of its own.
        static List<KeyValuePair<string, int>> Tokens(DynamicILInfo info)
        {
            var tokens = new List<KeyValuePair<string, int>>();
            foreach (Type type in Exceptions)
            {
                tokens.Add(new KeyValuePair<string, int>(type.Name, info.GetTokenFor(type.TypeHandle)));
            }
            foreach (string name in Methods)
            {
                RuntimeMethodHandle method = typeof(Helpers).GetMethod(name).MethodHandle;
                tokens.Add(new KeyValuePair<string, int>(name, info.GetTokenFor(method)));
            }
            ConstructorInfo constructor = typeof(OwnException).GetConstructor(Type.EmptyTypes);
            tokens.Add(new KeyValuePair<string, int>("New", info.GetTokenFor(constructor.MethodHandle)));
            return tokens;
        }

        static string Run(string[] words)
        {
            Type returned = words[0] == "i" ? typeof(int) : words[0] == "l" ? typeof(long)
                : words[0] == "d" ? typeof(double) : typeof(void);
            var method = new DynamicMethod("made", returned, Parameters, typeof(Differential).Module, true);
            DynamicILInfo info = method.GetDynamicILInfo();
            Tokens(info);
            info.SetCode(Bytes(words[3]), int.Parse(words[1], CultureInfo.InvariantCulture));
            info.SetLocalSignature(Bytes(words[2]));
            if (words[4] != "-")
            {
                info.SetExceptions(Bytes(words[4]));
            }
            int a = int.Parse(words[5], CultureInfo.InvariantCulture);
            long b = long.Parse(words[6], CultureInfo.InvariantCulture);
            double c = BitConverter.Int64BitsToDouble(long.Parse(words[7], CultureInfo.InvariantCulture));
            int d = int.Parse(words[8], CultureInfo.InvariantCulture);
            Helpers.Notes = 14695981039346656037UL;
            Helpers.Left = Helpers.Failed = 0;
            string what;
            try
            {
                switch (words[0])
                {
                    case "i":
                        what = ((ReturnsInt)method.CreateDelegate(typeof(ReturnsInt)))(a, b, c, d).ToString(CultureInfo.InvariantCulture);
                        break;
                    case "l":
                        what = ((ReturnsLong)method.CreateDelegate(typeof(ReturnsLong)))(a, b, c, d).ToString(CultureInfo.InvariantCulture);
                        break;
                    case "d":
                        double result = ((ReturnsDouble)method.CreateDelegate(typeof(ReturnsDouble)))(a, b, c, d);
                        what = Helpers.Bits(result).ToString(CultureInfo.InvariantCulture);
                        break;
                    default:
                        ((ReturnsNothing)method.CreateDelegate(typeof(ReturnsNothing)))(a, b, c, d);
                        what = "void";
                        break;
                }
            }
            catch (Exception thrown)
            {
                what = "!" + thrown.GetType().Name;
            }
            return what + " " + Helpers.Notes.ToString("x", CultureInfo.InvariantCulture) + " "
                + Helpers.Left.ToString(CultureInfo.InvariantCulture) + " " + Helpers.Failed.ToString(CultureInfo.InvariantCulture);
        }

        static byte[] Bytes(string text)
        {
            if (text == "-")
            {
                return new byte[0];
            }
            var bytes = new byte[text.Length / 2];
            for (int i = 0; i < bytes.Length; i++)
            {
                bytes[i] = (byte)(Digit(text[2 * i]) << 4 | Digit(text[2 * i + 1]));
            }
            return bytes;
        }

        static int Digit(char c)
        {
            return c <= '9' ? c - '0' : c - 'a' + 10;
        }
    }
}
