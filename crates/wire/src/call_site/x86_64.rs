/// The longest call instruction that [`ends_in_call`] knows, in bytes.
pub const LONGEST_CALL: usize = 8;

/// Whether the bytes end in a call instruction, so that the address behind them can be a return
/// address.
///
/// Calls are `E8 rel32` and `FF /2` with a register or memory operand (Intel SDM volume 2, `CALL`);
/// prefixes do not matter, because only the tail is looked at. Random bytes pass now and then: this
/// is a filter for guesses, not a proof.
pub fn ends_in_call(bytes: &[u8]) -> bool {
    let tail = |length: usize| bytes.len().checked_sub(length).and_then(|at| bytes.get(at..));
    if let Some([0xe8, ..]) = tail(5) {
        return true;
    }
    // `FF /2`: the ModRM byte tells how long the operand is.
    for length in 2..=7usize {
        let Some([0xff, modrm, rest @ ..]) = tail(length) else { continue };
        if (modrm >> 3) & 7 != 2 {
            continue;
        }
        let (mode, rm) = (modrm >> 6, modrm & 7);
        let sib = usize::from(mode != 3 && rm == 4);
        let displacement = match (mode, rm) {
            (0, 5) => 4,
            (0, 4) if rest.first().is_some_and(|sib| sib & 7 == 5) => 4,
            (1, _) => 1,
            (2, _) => 4,
            _ => 0,
        };
        if length == 2 + sib + displacement {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_every_form_of_call() {
        let calls: [&[u8]; 12] = [
            &[0xe8, 1, 2, 3, 4],
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd3],
            &[0xff, 0x10],
            &[0xff, 0x50, 0x20],
            &[0xff, 0x90, 1, 0, 0, 0],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0x41, 0xff, 0x13],
            &[0xff, 0x14, 0x24],
            &[0xff, 0x54, 0x24, 0x08],
            &[0xff, 0x94, 0x24, 0, 1, 0, 0],
            &[0xff, 0x14, 0x25, 0, 0, 0, 0],
        ];
        for call in calls {
            let mut code = vec![0x90, 0x90];
            code.extend(call);
            assert!(ends_in_call(&code), "{call:02x?}");
        }
    }

    #[test]
    fn turns_down_what_is_none() {
        let others: [&[u8]; 8] = [
            &[],
            &[0xff],
            &[0x90; 8],
            &[0xff, 0xe0],                // jmp rax
            &[0xff, 0x25, 1, 2, 3, 4],    // jmp [rip+…]
            &[0xe9, 1, 2, 3, 4],          // jmp
            &[0xff, 0x15, 1, 2, 3],       // cut short
            &[0xff, 0x14, 0x25, 0, 0, 0], // cut short
        ];
        for other in others {
            assert!(!ends_in_call(other), "{other:02x?}");
        }
    }
}
