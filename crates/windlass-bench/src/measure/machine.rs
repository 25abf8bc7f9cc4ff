use indicatif::HumanBytes;
use serde::Serialize;
use std::fs;
use windlass_cli::text::escape;

/// The machine that measures; what cannot be read is left out.
#[derive(Serialize)]
pub(crate) struct Machine {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<String>,
    cores: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    system: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
}

impl Machine {
    /// This machine.
    pub(crate) fn look() -> Self {
        let line = |file: &str, name: &str, mark: char| {
            let text = fs::read_to_string(file).ok()?;
            let (_, value) =
                text.lines().filter_map(|line| line.split_once(mark)).find(|(key, _)| key.trim() == name)?;
            Some(value.trim().trim_matches('"').to_owned())
        };
        let kib = line("/proc/meminfo", "MemTotal", ':');
        let memory = kib.and_then(|kib| kib.split_whitespace().next()?.parse::<u64>().ok());
        let system = line("/etc/os-release", "PRETTY_NAME", '=');
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            cpu: line("/proc/cpuinfo", "model name", ':'),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory.map(|kib| kib * 1024),
            system: format!(
                "{} {}",
                system.as_deref().unwrap_or(std::env::consts::OS),
                std::env::consts::ARCH
            ),
            kernel: kernel.map(|kernel| kernel.trim().to_owned()),
        }
    }

    /// One line for people.
    pub(crate) fn text(&self) -> String {
        let memory = self.memory_bytes.map_or(String::new(), |memory| format!(", {}", HumanBytes(memory)));
        let kernel = self.kernel.as_deref().map_or(String::new(), |kernel| format!(", kernel {kernel}"));
        let cpu = self.cpu.as_deref().unwrap_or("processor unknown");
        escape(&format!("{cpu}, {} cores{memory}, {}{kernel}", self.cores, self.system))
    }
}
