// Turns the debug information that Mono's mcs writes (program.dll.mdb) into a portable PDB (program.pdb), and rewrites the
// program so that its debug directory names it. Only for samples: mcs cannot write portable PDBs itself.
//
//   mono PortablePdb.exe program.dll program.dll.mdb out/program.dll
//
// Mono.Cecil does the writing. The classes that read .mdb files are part of mcs.exe.
using System;
using System.Collections.Generic;
using System.Linq;
using Mono.Cecil;
using Mono.Cecil.Cil;
using Mono.CompilerServices.SymbolWriter;

static class PortablePdb
{
    // By convention, a sequence point in this line is one that a debugger steps over.
    const int Hidden = 0xfeefee;

    static int Main(string[] args)
    {
        if (args.Length != 3)
        {
            Console.Error.WriteLine("usage: PortablePdb program.dll program.dll.mdb out.dll");
            return 2;
        }
        var documents = new Dictionary<string, Document>();
        using (ModuleDefinition module = ModuleDefinition.ReadModule(args[0]))
        {
            MonoSymbolFile symbols = MonoSymbolFile.ReadSymbolFile(args[1]);
            foreach (MethodEntry entry in symbols.Methods)
            {
                var method = (MethodDefinition)module.LookupToken(entry.Token);
                if (method.HasBody)
                {
                    AddLines(method, entry, documents);
                }
            }
            foreach (MethodDefinition method in module.GetTypes().SelectMany(type => type.Methods).ToList())
            {
                NameStateMachine(method);
            }
            module.Write(args[2], new WriterParameters { WriteSymbols = true, SymbolWriterProvider = new PortablePdbWriterProvider() });
        }
        return 0;
    }

    static void AddLines(MethodDefinition method, MethodEntry entry, Dictionary<string, Document> documents)
    {
        Dictionary<int, Instruction> instructions = method.Body.Instructions.ToDictionary(instruction => instruction.Offset);
        string path = entry.CompileUnit.SourceFile.FileName;
        Document document;
        if (!documents.TryGetValue(path, out document))
        {
            document = new Document(path) { Language = DocumentLanguage.CSharp, Type = DocumentType.Text };
            documents.Add(path, document);
        }
        var last = -1;
        foreach (LineNumberEntry line in entry.GetLineNumberTable().LineNumbers)
        {
            Instruction instruction;
            // One point per instruction, and only where an instruction starts.
            if (line.Offset <= last || !instructions.TryGetValue(line.Offset, out instruction))
            {
                continue;
            }
            last = line.Offset;
            var point = new SequencePoint(instruction, document);
            bool hidden = line.IsHidden || line.Row <= 0;
            point.StartLine = hidden ? Hidden : line.Row;
            point.EndLine = hidden ? Hidden : Math.Max(line.EndRow, line.Row);
            point.StartColumn = hidden ? 0 : Math.Max(line.Column, 1);
            point.EndColumn = hidden ? 0 : point.StartColumn + 1;
            if (!hidden && line.EndColumn > 0 && (point.EndLine > point.StartLine || line.EndColumn > point.StartColumn))
            {
                point.EndColumn = line.EndColumn;
            }
            method.DebugInformation.SequencePoints.Add(point);
        }
    }

    /// Says of the body of an async method or iterator which method the user wrote.
    static void NameStateMachine(MethodDefinition method)
    {
        CustomAttribute attribute = method.CustomAttributes.FirstOrDefault(
            one => one.AttributeType.Name == "AsyncStateMachineAttribute" || one.AttributeType.Name == "IteratorStateMachineAttribute");
        if (attribute == null || attribute.ConstructorArguments.Count != 1)
        {
            return;
        }
        var machine = ((TypeReference)attribute.ConstructorArguments[0].Value).Resolve();
        MethodDefinition moveNext = machine.Methods.FirstOrDefault(one => one.Name == "MoveNext");
        if (moveNext != null)
        {
            moveNext.DebugInformation.StateMachineKickOffMethod = method;
        }
    }
}
