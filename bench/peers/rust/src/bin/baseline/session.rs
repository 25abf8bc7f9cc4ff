use futures_util::future::poll_fn;
use std::{ops::Deref, sync::Arc};
use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// A connection, and the news of its LISTEN.
pub(crate) struct Session {
    client: Client,
    pub(crate) news: Arc<Notify>,
}

impl Session {
    pub(crate) async fn open(url: &str) -> anyhow::Result<Self> {
        let (client, mut connection) = tokio_postgres::connect(url, NoTls).await?;
        let news = Arc::new(Notify::new());
        let told = Arc::clone(&news);
        tokio::spawn(async move {
            loop {
                match poll_fn(|cx| connection.poll_message(cx)).await {
                    Some(Ok(AsyncMessage::Notification(_))) => told.notify_one(),
                    Some(Ok(_)) => {}
                    // Whoever uses the client gets the error too.
                    Some(Err(_)) | None => return,
                }
            }
        });
        Ok(Self { client, news })
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
