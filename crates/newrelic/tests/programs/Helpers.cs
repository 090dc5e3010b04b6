// Prints the methods of the type that has the helpers in the core library, one line for each, in the order of their text.
using System;
using System.Collections.Generic;
using System.Reflection;
public static class Helpers {
  public static int Main() {
    const BindingFlags All = BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.Static | BindingFlags.Instance | BindingFlags.DeclaredOnly;
    var type = typeof(object).Assembly.GetType("System.CannotUnloadAppDomainException");
    var methods = new List<MethodBase>(type.GetMethods(All));
    methods.AddRange(type.GetConstructors(All));
    var lines = new List<string>();
    foreach (var method in methods) {
      var signature = BitConverter.ToString(method.Module.ResolveSignature(method.MetadataToken)).Replace("-", "").ToLowerInvariant();
      lines.Add(string.Format("{0} attr=0x{1:x} impl=0x{2:x} customAttributes={3} sig={4}", method.Name, (int)method.Attributes, (int)method.GetMethodImplementationFlags(), method.GetCustomAttributesData().Count, signature));
    }
    lines.Sort(StringComparer.Ordinal);
    foreach (var line in lines) Console.WriteLine(line);
    return 0;
  }
}
