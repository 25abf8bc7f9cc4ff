//! A TCP forwarder whose connections can go silent without closing, as behind a proxy that lost its other
//! half: what is sent to them is acknowledged by a kernel and read by nobody. Or it leads to another server from
//! now on, as after a switch-over.
#![allow(dead_code)] // each test binary uses its part

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{
    io::{AsyncReadExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
};

pub(crate) struct Forwarder {
    pub(crate) port: u16,
    to: Arc<Mutex<String>>,
    strands: watch::Sender<bool>,
    open: Arc<AtomicUsize>,
}

impl Forwarder {
    /// To `host:port`, from a free port of the loopback interface.
    pub(crate) async fn start(to: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let (port, strands) =
            (listener.local_addr().expect("has an address").port(), watch::Sender::new(false));
        let open = Arc::<AtomicUsize>::default();
        let to = Arc::new(Mutex::new(to));
        let (watched, count, target) = (strands.clone(), Arc::clone(&open), Arc::clone(&to));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (stranded, to, count) =
                    (watched.subscribe(), target.lock().unwrap().clone(), Arc::clone(&count));
                tokio::spawn(async move {
                    count.fetch_add(1, Ordering::SeqCst);
                    forward(client, &to, stranded).await;
                    count.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, to, strands, open }
    }

    /// Every open connection passes no byte any more; new ones work.
    pub(crate) fn strand(&self) {
        self.strands.send_replace(true);
    }

    /// Leads to another `host:port`; every open connection ends.
    pub(crate) fn repoint(&self, to: String) {
        *self.to.lock().unwrap() = to;
        self.strands.send_replace(false);
    }

    /// How many connections the client has not closed.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

async fn forward(mut client: TcpStream, to: &str, mut stranded: watch::Receiver<bool>) {
    let Ok(mut server) = TcpStream::connect(to).await else { return };
    // First whether it is stranded: of a request that comes then nothing is passed on, whatever else is ready.
    tokio::select! {
        biased;
        _ = stranded.changed() => {}
        _ = copy_bidirectional(&mut client, &mut server) => return,
    }
    if !*stranded.borrow() {
        return;
    }
    // Read and forgotten until the client closes; the server hears nothing of it until then.
    let mut nowhere = [0; 4096];
    while client.read(&mut nowhere).await.is_ok_and(|count| count > 0) {}
}
