//! What is still on its way of a body when its request was answered, as one that is too large or whose token is wrong. It is read and dropped before the
//! answer goes out: where a connection is closed while the other side still sends, that one sees a broken pipe, and not why.

use axum::body::{Body, Bytes};
use hyper::{
    Request,
    body::{Body as _, Frame, Incoming, SizeHint},
    header,
};
use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{sync::oneshot, time::timeout};

/// So much of it is read, so long, and while no pause of it is longer: whoever sends more is cut off.
const MOST: u64 = 64 << 20;
const LONGEST: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(1);

/// The body of a request, which comes back when nobody read all of it.
struct Lent {
    body: Option<Incoming>,
    /// Whoever waits for `100 Continue` sends nothing before that, and that is said when the body is asked for.
    is_sent: bool,
    back: Option<oneshot::Sender<Incoming>>,
}

/// Where it comes back to.
pub(crate) struct Rest(oneshot::Receiver<Incoming>);

/// The request with a body whose rest can be read when it was answered.
pub(crate) fn lend(request: Request<Incoming>) -> (Request<Body>, Rest) {
    let (back, rest) = oneshot::channel();
    let is_sent = !request.headers().contains_key(header::EXPECT);
    let lent = |body| Body::new(Lent { body: Some(body), is_sent, back: Some(back) });
    (request.map(lent), Rest(rest))
}

impl hyper::body::Body for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.is_sent = true;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Incoming::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(body), Some(back)) = (self.body.take().filter(|_| self.is_sent), self.back.take()) {
            let _ = back.send(body); // or the connection has ended
        }
    }
}

impl Rest {
    /// Reads it, within bounds.
    pub(crate) async fn read(mut self) {
        let Ok(mut body) = self.0.try_recv() else { return };
        if body.is_end_stream() || body.size_hint().lower() > MOST {
            return;
        }
        let reads = async {
            let mut read = 0;
            while read <= MOST {
                let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
                let Ok(Some(Ok(frame))) = timeout(PAUSE, frame).await else { break };
                read += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
        };
        let _ = timeout(LONGEST, reads).await;
    }
}
