#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| windlass_fuzz::schedule_file::body(data));
