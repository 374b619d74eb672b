import {
  convertCssVariables,
  DEFAULT_THEME,
  defaultCssVariablesResolver,
  mergeMantineTheme,
} from '@mantine/core';
import type { Plugin } from 'vite';
import { theme } from './src/theme.ts';

const NAME = 'virtual:theme.css';
const RESOLVED = `\0${NAME}`;

/** The colours that something is drawn in; Mantine has ten more, a tenth of all style sheets. */
const DRAWN = new Set(['dark', 'gray', 'red', 'teal', 'tide']);

/** Whether a variable is one that something may use: not of a colour that nothing is drawn in. */
function isDrawn(name: string): boolean {
  const colour = /^--mantine-color-([a-z]+)-/.exec(name)?.[1];
  return colour === undefined || !(colour in DEFAULT_THEME.colors) || DRAWN.has(colour);
}

/**
 * The theme's variables as a style sheet.
 *
 * Mantine puts them into a `<style>` element while the page runs, which the policy that nodes send with
 * the page (`style-src 'self'`) forbids. So they are a file, made from the same theme.
 */
export function themeCss(): Plugin {
  return {
    name: 'theme-css',
    resolveId: (id) => (id === NAME ? RESOLVED : undefined),
    load: (id) => (id === RESOLVED ? sheet() : undefined),
  };
}

export function sheet(): string {
  const resolved = defaultCssVariablesResolver(mergeMantineTheme(DEFAULT_THEME, theme));
  for (const variables of Object.values(resolved)) {
    for (const name of Object.keys(variables)) {
      if (!isDrawn(name)) delete variables[name];
    }
  }
  return convertCssVariables(resolved, ':root');
}
