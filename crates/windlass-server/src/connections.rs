//! The connections of a server: bounded in number, in the size of heads, in the time to send one, and in how long an answer goes unread.

use crate::{unread::Unread, unsent::lend};
use axum::{
    Extension, Router,
    extract::ConnectInfo,
    http::{HeaderValue, Request, header},
    middleware::map_response,
    response::Response,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulConnection, GracefulShutdown},
};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The most at once, 10,000 workers that wait among them; more wait to be accepted.
const MOST: usize = 11_000;
/// The time to send the head of a request, also for the next one of a connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The longest head, in bytes.
const HEAD: usize = 16 << 10;
/// So long an answer waits that nobody reads.
const READ_TIME: Duration = Duration::from_secs(30);
/// What running requests get at a stop.
const GRACE: Duration = Duration::from_secs(10);
/// The pause after the system refused a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Marks a request of a connection that came when the server was about to stop.
#[derive(Clone)]
pub(crate) struct Stopping;

pub(crate) async fn serve(
    listener: &TcpListener,
    router: &Router,
    until: impl Future<Output = ()>,
    stop: &CancellationToken,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(MOST));
    let open = GracefulShutdown::new();
    let connect = |stream, address| open.watch(connection(stream, address, router.clone()));
    tokio::select! {
        biased;
        () = until => {}
        () = accept(listener, &places, connect) => {}
    }
    stop.cancel();
    // Who comes now is told at once: they would wait for an answer, and see the connection break when the process ends.
    let refusing = router.clone().layer(map_response(last_answer)).layer(Extension(Stopping));
    let refuse = |stream, address| connection(stream, address, refusing.clone());
    tokio::select! {
        () = accept(listener, &places, refuse) => {}
        ended = timeout(GRACE, open.shutdown()) => {
            if ended.is_err() {
                tracing::warn!("requests were still running at the stop, and were ended");
            }
        }
    }
    Ok(())
}

/// Ends the connection behind this answer.
async fn last_answer(mut answer: Response) -> Response {
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Accepts connections, for ever.
async fn accept<F>(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    connect: impl Fn(TcpStream, SocketAddr) -> F,
) where
    F: Future<Output = hyper::Result<()>> + Send + 'static,
{
    loop {
        let accepted = async {
            // Never closed.
            let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
            io::Result::Ok((listener.accept().await?, place))
        };
        match accepted.await {
            Ok(((stream, address), place)) => {
                let _ = stream.set_nodelay(true);
                let connection = connect(stream, address);
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                // Too many open files, as a rule: others may be closed meanwhile.
                tracing::warn!(%error, "a connection was not accepted");
                sleep(PAUSE).await;
            }
        }
    }
}

pub(crate) fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    address: SocketAddr,
    router: Router,
) -> impl GracefulConnection<Error = hyper::Error> {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        let (request, rest) = lend(request);
        let answer = router.clone().oneshot(request);
        async move {
            let answer = answer.await;
            rest.read().await;
            answer
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(Unread::new(stream, READ_TIME)), service)
}
