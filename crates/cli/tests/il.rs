//! `clrscope il` on real assemblies.
mod common;

use common::{run, scratch};
use metadata::Assembly;
use std::{fs, path::PathBuf};
use testkit::{Runtime, Sample};

fn sample() -> PathBuf {
    Sample::named("locker").compile(Runtime::V3_1).unwrap()
}

/// Every body that Microsoft's compilers have written into two frameworks.
#[test]
fn whole_frameworks_are_well_formed() {
    for (runtime, assemblies, bodies) in [(Runtime::V3_1, 165, 96_589), (Runtime::V9, 277, 169_008)]
    {
        let shared = runtime.require().executable().with_file_name("shared");
        let found =
            run(["il".as_ref(), "--verify".as_ref(), "--json".as_ref(), shared.as_os_str()])
                .expect(0)
                .json();
        assert_eq!(
            (&found["assemblies"], &found["bodies"]),
            (&assemblies.into(), &bodies.into()),
            "{runtime}: {found}"
        );
        assert_eq!(
            (&found["failed"], &found["errors"]),
            (&0.into(), &serde_json::json!([])),
            "{runtime}"
        );
        assert_eq!(found["failures"], serde_json::json!([]), "{runtime}");
    }
}

#[test]
fn methods_are_listed_and_shown() {
    let path = sample();
    let text = run(["il".as_ref(), path.as_os_str()]).expect(0).out;
    assert!(text.starts_with("// locker 0.0.0.0: "), "{text}");
    let main = ".method private hidebysig static int32 Clrscope.Samples.Locker::Main(string[] \
        args) cil managed";
    assert!(
        text.lines().any(|line| line.starts_with("0x060000") && line.ends_with(main)),
        "{text}"
    );

    let text = run(["il".as_ref(), path.as_os_str(), "--method".as_ref(), "*Locker.Main".as_ref()])
        .expect(0)
        .out;
    for part in [
        main,
        "\n{\n",
        "\n  .maxstack  ",
        "ldstr      \"ready\"\n",
        "call       void [System.Console]System.Console::WriteLine(string)\n",
        "newobj     instance void Clrscope.Samples.Locker/Pair::.ctor()\n",
        "stfld      int32 Clrscope.Samples.Locker/Pair::Hold\n",
        "ldarg.0\n",
        "\n}\n",
    ] {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }

    let json = run([
        "il".as_ref(),
        path.as_os_str(),
        "--json".as_ref(),
        "--method".as_ref(),
        "Main".as_ref(),
    ]);
    let json = json.expect(0).json();
    assert_eq!((&json["schema"], &json["assemblies"][0]["name"]), (&1.into(), &"locker".into()));
    let method = &json["assemblies"][0]["methods"][0];
    assert_eq!(
        (&method["name"], &method["declaration"]),
        (&"Clrscope.Samples.Locker::Main".into(), &main.into())
    );
    assert!(method["code_size"].as_u64().is_some_and(|size| size > 50), "{method}");
    assert!(
        method["il"].as_str().is_some_and(|text| text.contains("ldstr      \"ready\"")),
        "{method}"
    );
}

#[test]
fn bodies_that_are_not_well_formed() {
    let folder = scratch();
    let broken = folder.path().join("broken.dll");
    let mut bytes = fs::read(sample()).unwrap();
    let assembly = Assembly::parse(&bytes).unwrap();
    let main = assembly.methods().find(|method| method.name() == "Main").unwrap();
    let header = main.body_bytes().unwrap().unwrap();
    // A fat header has twelve bytes. No instruction starts with 0x24.
    let at = header.as_ptr() as usize - bytes.as_ptr() as usize + 12;
    bytes[at] = 0x24;
    fs::write(&broken, bytes).unwrap();
    let text = run(["il".as_ref(), "--verify".as_ref(), folder.path().as_os_str()]).expect(10).out;
    assert!(text.contains("Clrscope.Samples.Locker::Main (0x060000"), "{text}");
    assert!(
        text.contains("IL_0000: no instruction starts with 0x24")
            && text.contains("1 not well formed"),
        "{text}"
    );
    let json = run(["il".as_ref(), "--verify".as_ref(), "--json".as_ref(), broken.as_os_str()])
        .expect(10)
        .json();
    assert_eq!(
        (&json["failed"], &json["failures"][0]["method"]),
        (&1.into(), &"Clrscope.Samples.Locker::Main".into())
    );
    // What can be read of it is shown.
    let text = run(["il".as_ref(), broken.as_os_str(), "--method".as_ref(), "Main".as_ref()])
        .expect(0)
        .out;
    assert!(text.contains("// IL_0000: no instruction starts with 0x24"), "{text}");
}

#[test]
fn files_that_are_none() {
    let folder = scratch();
    let il = |name: &str, contents: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, contents).unwrap();
        run(["il".as_ref(), path.as_os_str()])
    };
    il("text.dll", b"not at all").expect_error(6, &["text.dll", "not a .NET assembly"]);
    let whole = fs::read(sample()).unwrap();
    il("cut.dll", &whole[..whole.len() / 2]).expect_error(6, &["cut.dll", "damaged"]);
    il("program", b"\x7fELF").expect_error(6, &["program", "not a .NET assembly"]);
    run(["il", "/nowhere/at/all.dll"]).expect_error(6, &["/nowhere/at/all.dll"]);
    run(["il".as_ref(), sample().as_os_str(), "--method".as_ref(), "Nope".as_ref()])
        .expect_error(2, &["Nope", "*"]);
    run(["il"]).expect_error(2, &["ASSEMBLY"]);
    let empty = scratch();
    run(["il".as_ref(), empty.path().as_os_str()]).expect_error(6, &["no .NET assembly"]);
    // In a folder, what is no assembly is left out, and what is damaged is reported.
    fs::write(folder.path().join("whole.dll"), whole).unwrap();
    let ended = run(["il".as_ref(), "--verify".as_ref(), folder.path().as_os_str()])
        .expect_error(6, &["cut.dll"]);
    assert!(ended.out.contains("in 1 assembly: all well formed; 1 other file"), "{}", ended.out);
}
