//! The snippet of the README: enqueue a job, work it, stop.

use windlass::{Client, Context, Job, Worker};

#[derive(serde::Serialize, serde::Deserialize)]
struct SendMail {
    to: String,
}

impl Job for SendMail {
    const KIND: &'static str = "mail.send";
}

async fn send_mail(mail: SendMail, ctx: Context) -> Result<(), anyhow::Error> {
    println!("attempt {}: a mail to {}", ctx.attempt(), mail.to);
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::connect("sqlite:hello.db").await?;
    client.migrate().await?;
    client.enqueue(SendMail { to: "you@example.com".into() }).await?;
    let worker = Worker::builder(&client).queue("default", 100).handle(send_mail).start().await?;
    worker.run_until_signal().await?;
    Ok(())
}
