// One of each shape that names and code can have, for the snapshot of what is written about them.
using System;
using System.Collections.Generic;

namespace Clrscope.Shapes
{
    public class Outer<T>
    {
        public struct Inner<U>
        {
            public U Value;
            public static T Shared;

            public KeyValuePair<T, U> Pair(ref T first, U[,] all, params int[] rest)
            {
                Shared = first;
                Value = all[rest[0], 1];
                return new KeyValuePair<T, U>(Shared, Value);
            }
        }
    }

    public static class Code
    {
        delegate int Change(int value);

        public static int Protected(string text, int times)
        {
            int sum = 0;
            try
            {
                try
                {
                    sum = int.Parse(text) * times;
                }
                catch (FormatException error) when (error.Message.Length > 3)
                {
                    Console.WriteLine("no \"number\"\n");
                }
                catch (OverflowException)
                {
                    return -1;
                }
            }
            finally
            {
                sum++;
            }
            return sum;
        }

        public static string Chosen(int number)
        {
            switch (number)
            {
                case 0: return "zero";
                case 1: return "one";
                case 2: return "two";
                default: return Outer<string>.Inner<int>.Shared;
            }
        }

        public static unsafe double Generic<T>(List<T> list, out T last, double* numbers) where T : struct
        {
            last = Array.Find(list.ToArray(), item => item.Equals(list[0]));
            Change change = value => value + list.Count;
            var inner = new Outer<string>.Inner<T>();
            string first = "";
            inner.Pair(ref first, new T[2, 2], change(1), 2);
            return numbers[1] * 1.5;
        }
    }
}
