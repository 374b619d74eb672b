import './styles/mantine.css';
import 'virtual:theme.css';
import './styles/fonts.css';
import './styles/console.css';
import './styles/parts.css';
import './styles/pages.css';
import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { queryClient } from './api/queries';
import { App } from './app';
import { Router } from './router';
import { theme } from './theme';

const root = document.getElementById('root');
if (!root) throw new Error('the page has no place for the console');

createRoot(root).render(
  <StrictMode>
    {/* Variables and classes are in style sheets: the page's policy forbids `<style>` elements. */}
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      withCssVariables={false}
      withGlobalClasses={false}
    >
      <QueryClientProvider client={queryClient}>
        <Router>
          <App />
        </Router>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
