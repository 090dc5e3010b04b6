using System;
using System.Runtime.CompilerServices;
public static class Hello {
  [MethodImpl(MethodImplOptions.NoInlining)] static void Greet(string whom) { Console.WriteLine("Hello, " + whom); }
  public static int Main() { Greet("world"); return 0; }
}
