// Prints what System.Reflection.Metadata reads of a portable PDB: the oracle for our own reading of it.
//
//   <assembly> <file to write its embedded PDB to>
//   <portable PDB>
//
// Lines are `point <row> <IL offset> <line, 0 where hidden> <file>` and `kickoff <row of MoveNext> <row>`.
using System;
using System.IO;
using System.Linq;
using System.Reflection.Metadata;
using System.Reflection.Metadata.Ecma335;
using System.Reflection.PortableExecutable;

public static class PdbOracle
{
    public static int Main(string[] args)
    {
        if (args.Length > 1)
        {
            using (var assembly = new PEReader(File.OpenRead(args[0])))
            {
                DebugDirectoryEntry entry = assembly.ReadDebugDirectory()
                    .First(candidate => candidate.Type == DebugDirectoryEntryType.EmbeddedPortablePdb);
                Module(assembly);
                using (MetadataReaderProvider pdb = assembly.ReadEmbeddedPortablePdbDebugDirectoryData(entry))
                {
                    Print(pdb.GetMetadataReader());
                    WriteFile(pdb.GetMetadataReader(), args[1]);
                }
            }
            return 0;
        }
        using (MetadataReaderProvider pdb = MetadataReaderProvider.FromPortablePdbStream(File.OpenRead(args[0])))
        {
            Print(pdb.GetMetadataReader());
        }
        return 0;
    }

    static void Module(PEReader assembly)
    {
        MetadataReader metadata = assembly.GetMetadataReader();
        Guid id = metadata.GetGuid(metadata.GetModuleDefinition().Mvid);
        Console.WriteLine("mvid " + string.Concat(id.ToByteArray().Select(part => part.ToString("x2"))));
    }

    static unsafe void WriteFile(MetadataReader pdb, string path)
    {
        var bytes = new byte[pdb.MetadataLength];
        System.Runtime.InteropServices.Marshal.Copy((IntPtr)pdb.MetadataPointer, bytes, 0, bytes.Length);
        File.WriteAllBytes(path, bytes);
    }

    static void Print(MetadataReader pdb)
    {
        var output = new StreamWriter(Console.OpenStandardOutput());
        foreach (MethodDebugInformationHandle handle in pdb.MethodDebugInformation)
        {
            MethodDebugInformation method = pdb.GetMethodDebugInformation(handle);
            int row = MetadataTokens.GetRowNumber(handle);
            MethodDefinitionHandle kickoff = method.GetStateMachineKickoffMethod();
            if (!kickoff.IsNil)
            {
                output.WriteLine("kickoff " + row + " " + MetadataTokens.GetRowNumber(kickoff));
            }
            foreach (SequencePoint point in method.GetSequencePoints())
            {
                int line = point.IsHidden ? 0 : point.StartLine;
                string file = point.Document.IsNil ? "" : pdb.GetString(pdb.GetDocument(point.Document).Name);
                output.WriteLine("point " + row + " " + point.Offset + " " + line + " " + file);
            }
        }
        output.Flush();
    }
}
