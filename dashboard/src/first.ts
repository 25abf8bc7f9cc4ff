// Before the first paint: the stored theme, else the system's. A file of its own, loaded at once, because the
// content security policy allows no inline script and the application comes later.
import { preferred } from './theme';

document.documentElement.dataset['theme'] = preferred();
