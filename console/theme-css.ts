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
    load(id) {
      if (id !== RESOLVED) return undefined;
      const resolved = defaultCssVariablesResolver(mergeMantineTheme(DEFAULT_THEME, theme));
      return convertCssVariables(resolved, ':root');
    },
  };
}
