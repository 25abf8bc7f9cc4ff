import { useState } from 'preact/hooks';
import { asProblem, type Problem } from '../api/client';
import { span } from '../format';
import { Mark } from '../parts/Icon';
import { another, logIn } from '../session';

export function Login() {
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState<Problem>();
  const [sending, setSending] = useState(false);
  const send = async (): Promise<void> => {
    setSending(true);
    setProblem(undefined);
    try {
      await logIn(token.trim());
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setSending(false);
    }
  };
  return (
    <main id="main" class="login" tabIndex={-1}>
      <form class="panel" onSubmit={event => { event.preventDefault(); void send(); }}>
        <Mark of="brand-mark" />
        <h1>Log in to Windlass</h1>
        <label class="confirm"><span>Token</span><input class="field mono" type="password" name="token" autocomplete="current-password" required autofocus placeholder="wl_…" value={token} onInput={event => setToken(event.currentTarget.value)} aria-describedby="login-help" /></label>
        {problem && <p class="bad" role="alert">{problem.title}{problem.detail && `: ${problem.detail}`}{problem.retryAfter && `. Try again in ${span(problem.retryAfter * 1_000)}`}</p>}
        <button class="btn primary" type="submit" disabled={sending || !token.trim()}>{sending ? 'Logging in…' : 'Log in'}</button>
        {another.value && <button class="btn" type="button" onClick={() => (another.value = false)}>Back</button>}
        <p class="small faint" id="login-help">Whoever runs this server has tokens. This one is exchanged for a cookie and not kept by the page.</p>
      </form>
    </main>
  );
}
